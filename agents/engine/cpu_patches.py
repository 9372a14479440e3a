"""Three patches that vLLM 0.32 needs before it builds an engine on a CPU.

* Plain weights. vLLM packs the weights of linear layers when it loads a model, and a later load then misses them,
  silently for a tied output head. Plain parameters accept an update in place and compute as fast.
* Plain experts, with packed copies (``weights.cpu_experts``).
* Blocks of 16 tokens. The x86 attention kernel accepts blocks of 16, but vLLM offers only multiples of 32. The block is
  the granularity of the prefix cache, so each turn recomputes half a block on average; blocks of 16 save a seventh of
  the work.
"""

import platform
from typing import Any

from ..weights import cpu_experts

X86 = frozenset({"x86_64", "amd64"})


def apply() -> None:
    """Patch vLLM in the process that builds the engine; idempotent."""
    import vllm._custom_ops
    import vllm.model_executor.layers.utils
    from vllm.v1.attention.backend import MultipleOf
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    custom_ops: Any = vllm._custom_ops
    utils: Any = vllm.model_executor.layers.utils
    custom_ops._supports_onednn = False
    utils.check_cpu_sgl_kernel = lambda n, k, dtype: False
    cpu_experts.keep_plain_weights()
    if platform.machine().lower() in X86:
        backend: Any = CPUAttentionBackend
        backend.get_supported_kernel_block_sizes = staticmethod(lambda kv_cache_spec=None: [MultipleOf(16)])


def block_size(requested: int) -> int:
    """Round ``requested`` up to a block size that this processor's kernel accepts."""
    grain = 16 if platform.machine().lower() in X86 else 32
    return -(-requested // grain) * grain
