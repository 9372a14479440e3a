"""Two things vLLM 0.32 must be told before it builds an engine on a CPU.

*Weights stay plain.* vLLM packs the weights of linear layers when it loads a model, and a later load then misses them,
a tied output head silently. Plain parameters take an update in place, and compute as fast.

*Blocks of 16 tokens.* The x86 attention kernel takes blocks of 16, but vLLM only offers multiples of 32. The block is
the grain of the prefix cache, so a turn of an agent computes half a block for nothing: with 16, a seventh less work.
"""

import platform
from typing import Any

X86 = frozenset({"x86_64", "amd64"})


def apply() -> None:
    """Tell vLLM, in the process that will build the engine; more than once does no harm."""
    import vllm._custom_ops
    import vllm.model_executor.layers.utils
    from vllm.v1.attention.backend import MultipleOf
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    custom_ops: Any = vllm._custom_ops
    utils: Any = vllm.model_executor.layers.utils
    custom_ops._supports_onednn = False
    utils.check_cpu_sgl_kernel = lambda n, k, dtype: False
    if platform.machine().lower() in X86:
        backend: Any = CPUAttentionBackend
        backend.get_supported_kernel_block_sizes = staticmethod(lambda kv_cache_spec=None: [MultipleOf(16)])


def block_size(requested: int) -> int:
    """``wanted``, or the next size that this processor's kernel takes."""
    grain = 16 if platform.machine().lower() in X86 else 32
    return -(-requested // grain) * grain
