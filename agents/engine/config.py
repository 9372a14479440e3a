"""The settings of a vLLM engine; importable without Ray and vLLM."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from . import cpu_patches

DEFAULT_MAX_MODEL_LEN = 1024
"""Default context length: the maximum number of tokens in prompt and completion together."""


class EngineConfig(BaseModel):
    """Settings of one engine. Top-p, top-k and penalties have no field: they would change the sampling distribution."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_num_seqs: int = Field(default=256, gt=0)
    """Maximum number of requests generated at the same time; further requests wait."""
    max_num_batched_tokens: int = Field(default=1024, gt=0)
    """Maximum number of tokens per engine step; on a CPU, more than about 1,024 exceed its cache and cost a quarter of
    the speed."""
    kv_cache_memory_bytes: int = Field(default=256 << 20, gt=0)
    """Memory of the key-value cache in bytes; on a CPU all of it is resident."""
    block_size: int = Field(default=16, gt=0, multiple_of=16)
    """Granularity of the prefix cache, in tokens."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of weights and computation."""
    num_threads: int = Field(default=1, gt=0)
    """CPU threads per engine; the sum over all busy processes should not exceed the number of cores."""
    tensor_parallel_size: int = Field(default=0, ge=0)
    """GPUs per engine; 0 runs the engine on the CPU."""


def engine_arguments(
    config: EngineConfig, model_path: str, max_model_len: int = DEFAULT_MAX_MODEL_LEN
) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's ``EngineArgs`` for a model folder.

    ``max_model_len`` is the context length in tokens. On a CPU ``block_size`` is rounded up to a size that the
    kernel accepts.
    """
    arguments: dict[str, Any] = {
        "model": model_path,
        "dtype": config.dtype,
        "max_model_len": max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "kv_cache_memory_bytes": config.kv_cache_memory_bytes,
        "block_size": config.block_size,
    }
    if config.tensor_parallel_size:
        return {**arguments, "tensor_parallel_size": config.tensor_parallel_size}
    return {**arguments, "enforce_eager": True, "block_size": cpu_patches.block_size(config.block_size)}
