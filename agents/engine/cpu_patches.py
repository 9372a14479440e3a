"""Patches of vLLM 0.32, applied before it builds an engine on a CPU.

* Plain weights. vLLM packs the weights of linear layers when it loads a model, and a later load then misses them,
  silently for a tied output head. Plain parameters accept an update in place and compute as fast.
* Plain experts. vLLM puts the packed weights of experts in place of the plain ones, and a later update overwrites them
  with plain ones. Here a packed copy exists in addition: twice the memory of the experts.
* In float32, matrices by columns. The product of a few rows with a matrix that is stored by rows takes a quarter longer
  at 24 rows, and three quarters at 8; both are as fast at 128.
* Blocks of 16 tokens. The x86 attention kernel accepts blocks of 16, but vLLM offers only multiples of 32. The block is
  the granularity of the prefix cache, so each turn recomputes half a block on average; blocks of 16 save a seventh of
  the work.
* In float32, norms by vLLM's own CPU kernel, which its dispatch offers to GPUs only, and parameters without
  ``__torch_function__``. A small model computes for less time than Python needs to start its operations, and both save
  an eighth of a step.
"""

import platform
from typing import Any

X86 = frozenset({"x86_64", "amd64"})
NORMS = "turnwise"
"""Name of our implementations of the norms."""
KERNEL_GRAIN = 16
EXPERT_WEIGHTS = ("w13_weight", "w2_weight", "w13_bias")
"""Parameters of a layer of experts that packing reads or replaces."""


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
    _keep_experts_plain()
    _store_by_columns(utils)
    _offer_norms()
    _call_plainly()
    if platform.machine().lower() in X86:
        backend: Any = CPUAttentionBackend
        backend.get_supported_kernel_block_sizes = staticmethod(lambda kv_cache_spec=None: [MultipleOf(16)])


def _store_by_columns(utils: Any) -> None:
    """Store the matrices of linear layers and output heads by columns after vLLM has loaded them; their shapes stay."""
    import torch

    dispatch = utils.dispatch_cpu_unquantized_gemm
    if hasattr(dispatch, "by_columns"):
        return

    def by_columns(layer: Any, remove_weight: bool) -> None:
        dispatch(layer, remove_weight)
        weight = layer.weight.data
        if weight.ndim == 2 and weight.dtype == torch.float32 and not weight.is_meta:
            layer.weight.data = weight.t().contiguous().t()

    by_columns.by_columns = True  # type: ignore[attr-defined]
    utils.dispatch_cpu_unquantized_gemm = by_columns


def norm_arguments() -> dict[str, Any]:
    """Return the arguments of vLLM that select the norms of ``apply``."""
    return {"ir_op_priority": {"rms_norm": [NORMS, "native"], "fused_add_rms_norm": [NORMS, "native"]}}


def _offer_norms() -> None:
    """Register the CPU kernels as implementations of the two norms.

    They read contiguous rows of ``KERNEL_GRAIN`` numbers. In bfloat16 they truncate where vLLM's native norms round.
    """
    import torch
    from vllm import ir

    ops: Any = ir.ops
    if NORMS in ops.rms_norm.impls:
        return
    kernels: Any = torch.ops._C
    norm, add_and_norm = kernels.rms_norm.default, kernels.fused_add_rms_norm.default

    def rms_norm(
        x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
    ) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        norm(out, x, weight, epsilon)
        return out

    def fused_add_rms_norm(
        x: torch.Tensor,
        x_residual: torch.Tensor,
        weight: torch.Tensor | None,
        epsilon: float,
        variance_size: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        add_and_norm(x, x_residual, weight, epsilon)
        return x, x_residual

    def accepts(weight: torch.Tensor | None, *rows: torch.Tensor) -> bool:
        return weight is not None and all(
            row.dtype == weight.dtype == torch.float32 and row.shape[-1] % KERNEL_GRAIN == 0 for row in rows
        )

    ops.rms_norm.register_impl(
        NORMS,
        supports_args=lambda x, weight, epsilon, variance_size=None: variance_size is None and accepts(weight, x),
    )(rms_norm)
    ops.fused_add_rms_norm.register_impl(
        NORMS,
        inplace=True,
        supports_args=lambda x, x_residual, weight, epsilon, variance_size=None: (
            variance_size is None
            and accepts(weight, x, x_residual)
            and x.is_contiguous()
            and x_residual.is_contiguous()
        ),
    )(fused_add_rms_norm)


def _call_plainly() -> None:
    """Let operations on vLLM's parameters skip ``__torch_function__``, which does nothing but call the default."""
    import torch
    from vllm.model_executor.parameter import BasevLLMParameter

    parameter: Any = BasevLLMParameter
    parameter.__torch_function__ = torch._C._disabled_torch_function_impl


def block_size(requested: int) -> int:
    """Round ``requested`` up to a block size that this processor's kernel accepts."""
    grain = 16 if platform.machine().lower() in X86 else 32
    return -(-requested // grain) * grain


def repack_experts(model: Any) -> None:
    """Pack the present weights of every expert of a vLLM model, after an update of its plain weights."""
    for layer in model.modules():
        kernel = getattr(getattr(layer, "quant_method", None), "moe_kernel", None)
        experts = getattr(kernel, "fused_experts", None)
        if hasattr(experts, "packed"):
            _pack_copy(experts, layer)


def _keep_experts_plain() -> None:
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts

    experts: Any = CPUUnquantizedExperts
    if hasattr(experts, "pack_weights"):
        return
    experts.pack_weights = experts.process_weights_after_loading
    experts.process_weights_after_loading = _pack_copy
    apply_plain = experts.apply

    def apply_packed(self: Any, output: Any, hidden_states: Any, w1: Any, w2: Any, *others: Any, **named: Any) -> None:
        apply_plain(self, output, hidden_states, self.packed.w13_weight, self.packed.w2_weight, *others, **named)

    experts.apply = apply_packed


def _pack_copy(experts: Any, layer: Any) -> None:
    """Pack a copy of the weights of ``layer``; its own stay plain."""
    from torch import nn

    copy = nn.Module()
    for name in EXPERT_WEIGHTS:
        if hasattr(layer, name):
            setattr(copy, name, nn.Parameter(getattr(layer, name).detach().clone(), requires_grad=False))
    for name in ("activation", "moe_config"):
        setattr(copy, name, getattr(layer, name, None))
    experts.pack_weights(copy)
    experts.packed = copy
