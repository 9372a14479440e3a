"""The memory of one engine on one device, and the tokens that its key-value cache holds."""

from dataclasses import dataclass

from ...agents.engine.config import FEATURES_KEPT_BYTES, EngineConfig
from .learner_memory import FLOAT32
from .model_shape import ModelShape

ELEMENT_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
SAMPLING_COPIES = 3
"""Tensors of the size of the logits that exist when vLLM samples: logits, log-probabilities and a sorted or masked
copy."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes of one engine on each of its devices."""

    shape: ModelShape
    config: EngineConfig
    max_context: int

    @property
    def devices(self) -> int:
        """GPUs of one engine; 1 on a CPU."""
        return max(1, self.config.tensor_parallel_size)

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by part on one device."""
        shape, config = self.shape, self.config
        inner = shape.intermediate or shape.active_experts * shape.expert_intermediate
        step = config.max_num_batched_tokens * (2 * shape.hidden + shape.queries + 2 * shape.keys + 3 * inner)
        sampled = min(config.max_num_seqs, config.max_num_batched_tokens) * shape.vocabulary
        images = {}
        if shape.vision is not None:  # vLLM keeps the features of as many tokens as a step has
            images = {"images": self._element * config.max_num_batched_tokens * shape.vision.features}
        return {
            **images,
            "weights": self._element * shape.parameters // self.devices,
            "kv cache": config.kv_cache_memory_bytes,
            "activations": self._element * step // self.devices,
            "logits": SAMPLING_COPIES * FLOAT32 * sampled,
        }

    @property
    def host_parts(self) -> dict[str, int]:
        """Bytes of one engine on its host by part, without its process and, on a CPU, without ``parts``."""
        return {} if self.shape.vision is None else {"kept images": FEATURES_KEPT_BYTES}

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token in the cache of one device; the tests compare it with vLLM's."""
        heads = -(-self.shape.kv_heads // self.devices)
        return 2 * self.shape.layers * heads * self.shape.head_dim * self._element

    @property
    def cached_tokens(self) -> int:
        """Tokens that the cache holds."""
        return self.config.kv_cache_memory_bytes // self.bytes_per_token

    @property
    def cached_contexts(self) -> int:
        """Full contexts that the cache holds."""
        return self.cached_tokens // self.max_context

    @property
    def smallest_cache_bytes(self) -> int:
        """Bytes of the cache of one full context, in whole blocks; vLLM does not start with less."""
        blocks = -(-self.max_context // self.config.block_size)
        return blocks * self.config.block_size * self.bytes_per_token

    @property
    def _element(self) -> int:
        return ELEMENT_BYTES[self.config.dtype]
