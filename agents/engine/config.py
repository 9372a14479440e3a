"""The settings of a vLLM engine, and the models that it cannot serve; importable without Ray and vLLM.

Models are judged by their ``config.json``, before a run starts.
"""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError, PydanticKnownError

from ...errors import TurnwiseError
from . import cpu_patches

CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Attention head sizes that vLLM supports on a CPU; its process dies with any other."""
EXPERT_GRAIN = 32
"""vLLM's kernel for experts on a CPU needs hidden sizes that are multiples of this."""
ONE_WINDOW = frozenset({"qwen2", "qwen2_5_vl_text", "qwen3"})
"""Values of ``model_type`` whose class in vLLM refuses a mixture of sliding and full layers."""

IMAGE_TYPES = {"llava": "LLaVA", "qwen2_5_vl": "Qwen2.5-VL", "qwen3_vl": "Qwen3-VL"}
"""The families of models that read images, and that play and are trained: their names by ``model_type``."""
PARTS = {"llava": ("clip_vision_model", "llama")}
"""Types of the vision tower and of the decoder, where a ``model_type`` stands for several."""
REFUSED_IMAGE_TYPES = {
    "gemma3": (
        "its image tokens attend to one another in both directions, which neither vLLM on a CPU nor the learner "
        "computes: log-probabilities were measured to differ by up to 0.0009 nats, where 0.0001 are allowed"
    ),
}
"""Reasons why further ones are refused, with vLLM 0.32 and `transformers` 5.19."""

_ARGUMENTS = tomllib.loads(Path(__file__).with_name("vllm_arguments.toml").read_text())
PASSED_THROUGH = frozenset(name for names in _ARGUMENTS["passed_through"].values() for name in names)
"""Arguments of vLLM that ``[engine]`` takes under vLLM's own names."""
REFUSED: dict[str, str] = {name: one["reason"] for one in _ARGUMENTS["refused"] for name in one["names"]}
"""Reasons by the names of further arguments."""
FREE_SHARE_AT_START = 0.1
"""vLLM does not start unless this share of its GPU is free. With ``kv_cache_memory_bytes`` that is its only use of
``gpu_memory_utilization``, whose default would refuse a GPU on which the learner has loaded its weights."""
LANGUAGE_MODEL_CACHE_BYTES = 1 << 30
"""The default of ``kv_cache_memory_bytes`` in a run with ``model.path``: a context of 4,096 tokens of most models with
up to four billion parameters."""
MAX_IMAGES = 32
"""Images in one prompt, at most."""
FEATURES_KEPT_BYTES = 1 << 30
"""Bytes of the prepared images that an engine keeps on its host, those of the last used. A screenshot of 1280 x 800 has
25 MB."""
DEFAULT_MAX_MODEL_LEN = 1024
"""Default context length: the maximum number of tokens in prompt and completion together."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM reserves memory for; a smaller adapter is padded with zeros."""
MAX_LORA_RANK = LORA_RANKS[-1]


def _passed_through(name: str) -> str:
    """Return the name of an argument of vLLM that has no field.

    Raises:
        PydanticCustomError: turnwise refuses it, with the reason.
        PydanticKnownError: there is no such argument.
    """
    if name in REFUSED:
        raise PydanticCustomError("refused", "not passed to vLLM: {reason}", {"reason": REFUSED[name]})
    if name not in PASSED_THROUGH:
        raise PydanticKnownError("extra_forbidden")
    return name


class EngineConfig(BaseModel):
    """Settings of one engine. Further arguments of vLLM are taken under vLLM's own names:
    [models.md](models.md#settings-of-the-engine) lists them. Top-p, top-k and penalties have no key: they would change
    the sampling distribution."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[Annotated[str, AfterValidator(_passed_through)], Any]
    more_fields: ClassVar[frozenset[str]] = PASSED_THROUGH
    """Names of keys without a field."""

    max_num_seqs: int = Field(default=256, gt=0)
    """Maximum number of requests generated at the same time; further requests wait."""
    max_num_batched_tokens: int = Field(default=1024, gt=0)
    """Maximum number of tokens per engine step; on a CPU, more than about 1,024 exceed its cache and cost a quarter of
    the speed."""
    kv_cache_memory_bytes: int = Field(default=256 << 20, gt=0)
    """Memory of the key-value cache in bytes; on a CPU all of it is resident. The default with `model.path` is 1 GiB.
    `gpu_memory_utilization` replaces it."""
    block_size: int = Field(default=16, gt=0, multiple_of=16)
    """Granularity of the prefix cache, in tokens."""
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of weights and computation."""
    num_threads: int = Field(default=1, gt=0)
    """CPU threads per engine; the sum over all busy processes should not exceed the number of cores."""
    tensor_parallel_size: int = Field(default=0, ge=0)
    """GPUs per engine; 0 runs the engine on the CPU."""
    start_timeout_s: float = Field(default=600.0, gt=0)
    """Timeout of the start of an engine, and of the other processes of a run; loading the model comes on top."""


def engine_arguments(
    config: EngineConfig,
    model_path: str,
    max_model_len: int = DEFAULT_MAX_MODEL_LEN,
    lora_rank: int = 0,
    *,
    images: bool = False,
) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's ``EngineArgs`` for a model folder.

    ``max_model_len`` is the context length in tokens. On a CPU ``block_size`` is rounded up to a size that the
    kernel accepts. With ``lora_rank``, an engine on GPUs serves the model with an adapter of that rank; on a CPU,
    adapters are merged into the weights (``weights.served_adapter``). With ``images``, prompts may have images, whose
    processor needs the tokenizer. Arguments under vLLM's own names take precedence.
    """
    arguments: dict[str, Any] = {
        "model": model_path,
        "load_format": "safetensors",  # vLLM's default falls back to files that it unpickles
        "dtype": config.dtype,
        "max_model_len": max_model_len,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "block_size": config.block_size,
    }
    if images:
        arguments["skip_tokenizer_init"] = False
        arguments["limit_mm_per_prompt"] = {"image": MAX_IMAGES, "video": 0}
        arguments["mm_processor_cache_gb"] = 0  # `images` keeps them; vLLM would keep 4 GiB more
    if lora_rank and config.tensor_parallel_size:
        arguments["enable_lora"] = True
        arguments["max_lora_rank"] = next(rank for rank in LORA_RANKS if rank >= lora_rank)
    passed = config.model_extra or {}
    if "gpu_memory_utilization" not in passed:
        arguments["kv_cache_memory_bytes"] = config.kv_cache_memory_bytes
    if config.tensor_parallel_size:
        devices = {"tensor_parallel_size": config.tensor_parallel_size, "gpu_memory_utilization": FREE_SHARE_AT_START}
        return {**arguments, **devices, **passed}
    return {**arguments, "enforce_eager": True, "block_size": cpu_patches.block_size(config.block_size), **passed}


class ModelNotServable(TurnwiseError):
    """The engines cannot serve the model."""


class ImagesNotSupported(TurnwiseError):
    """The model reads images or sound, and its family neither plays nor is trained."""


def refuse_other_images(config: Any, model: str, key: str) -> None:
    """Refuse a model that reads images or sound and is of none of the families ``IMAGE_TYPES``.

    Args:
        config: of the model, as `transformers` reads it.
        model: its folder or hub id, for the error.
        key: the configuration key or option that names it, for the error.

    Raises:
        ImagesNotSupported: as above; the message lists the families.
    """
    if config.get_text_config() is config:
        return
    if config.model_type in IMAGE_TYPES:
        parts = config.vision_config.model_type, config.get_text_config().model_type
        known = PARTS.get(config.model_type, parts)
        if parts == known:
            return
        reason = f"its parts are {_quoted(parts)}, and those of the family {_quoted(known)}"
    else:
        reason = REFUSED_IMAGE_TYPES.get(config.model_type, "turnwise has neither its images in a prompt nor its tower")
    families = ", ".join(f"{name} (`{kind}`)" for kind, name in IMAGE_TYPES.items())
    raise ImagesNotSupported(
        f"`{key}`: {model} (`{config.model_type}`) cannot be used: it reads images or sound too, and {reason}. Set "
        f"`{key}` to one of the families that read images, {families}, or to a model that reads text alone"
    )


def _quoted(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def refuse_unservable(model: Any, engine: EngineConfig, max_model_len: int, key: str = "model.path") -> None:
    """Raise unless engines can serve a model exactly as `transformers` computes it.

    Args:
        model: the configuration of the model, as `transformers` reads it.
        max_model_len: prompt and completion together, in tokens.
        key: the configuration key or option that names it, for the error.

    Raises:
        ModelNotServable: they cannot; the message has the reason.
    """
    text = model.get_text_config()
    if reason := _on_any_device(text, max_model_len) or ("" if engine.tensor_parallel_size else _on_a_cpu(text)):
        raise ModelNotServable(f"`{key}`: vLLM cannot serve this model ({model.model_type}): {reason}")


def _on_any_device(model: Any, max_model_len: int) -> str:
    types = set(getattr(model, "layer_types", None) or ())
    if model.model_type in ONE_WINDOW and len(types) > 1:
        return "its class in vLLM refuses a mixture of sliding and full layers; set `use_sliding_window` to false"
    for rope in _rotary_embeddings(model):
        kind, original = rope.get("rope_type"), rope.get("original_max_position_embeddings")
        if kind == "dynamic":
            return "the frequencies of its rotary embedding depend on the length of a sequence (`rope_type = dynamic`)"
        if kind == "longrope" and original and max_model_len > original:
            return (
                f"beyond {original} tokens, vLLM and transformers choose the factors of its rotary embedding "
                f"differently (`rope_type = longrope`); set `horizon.max_context` to at most {original}"
            )
    return ""


def _rotary_embeddings(model: Any) -> list[dict[str, Any]]:
    """Return the parameters of the rotary embeddings: one for all layers, or one per type of layer."""
    parameters = getattr(model, "rope_parameters", None) or {}
    return (
        [parameters]
        if "rope_type" in parameters
        else [parameter for parameter in parameters.values() if isinstance(parameter, dict)]
    )


def _on_a_cpu(model: Any) -> str:
    heads = getattr(model, "head_dim", None) or model.hidden_size // model.num_attention_heads
    if heads not in CPU_HEAD_SIZES:
        sizes = ", ".join(map(str, CPU_HEAD_SIZES))
        return f"its attention heads have the size {heads}, and vLLM's build for CPUs supports {sizes} only"
    experts = getattr(model, "num_experts", None) or getattr(model, "num_local_experts", None)
    if experts and model.hidden_size % EXPERT_GRAIN:
        return f"its hidden size is {model.hidden_size}, and vLLM's experts on a CPU need a multiple of {EXPERT_GRAIN}"
    return ""
