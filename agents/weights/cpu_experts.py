"""Experts of a mixture on the CPU, whose weights stay plain, so that a weight update loads them in place.

vLLM 0.32 packs the weights of experts when it loads a model and puts the packed weights in place of the plain ones; a
later update then overwrites the packed weights with plain ones. Here a packed copy exists in addition: twice the memory
of the experts. ``repack`` computes it again after each update.
"""

from typing import Any

WEIGHTS = ("w13_weight", "w2_weight", "w13_bias")
"""Parameters of a layer of experts that packing reads or replaces."""


def keep_plain_weights() -> None:
    """Patch vLLM in the process that builds the engine; idempotent."""
    from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts

    experts: Any = CPUUnquantizedExperts
    if hasattr(experts, "pack_weights"):
        return
    experts.pack_weights = experts.process_weights_after_loading
    experts.process_weights_after_loading = _keep
    apply = experts.apply

    def apply_packed(self: Any, output: Any, hidden_states: Any, w1: Any, w2: Any, *others: Any, **named: Any) -> None:
        apply(self, output, hidden_states, self.packed.w13_weight, self.packed.w2_weight, *others, **named)

    experts.apply = apply_packed


def repack(model: Any) -> None:
    """Pack the present weights of every expert of a vLLM model."""
    for layer in model.modules():
        kernel = getattr(getattr(layer, "quant_method", None), "moe_kernel", None)
        experts = getattr(kernel, "fused_experts", None)
        if hasattr(experts, "packed"):
            _keep(experts, layer)


def _keep(experts: Any, layer: Any) -> None:
    """Pack a copy of the weights of ``layer``; its own stay plain."""
    from torch import nn

    copy = nn.Module()
    for name in WEIGHTS:
        if hasattr(layer, name):
            setattr(copy, name, nn.Parameter(getattr(layer, name).detach().clone(), requires_grad=False))
    for name in ("activation", "moe_config"):
        setattr(copy, name, getattr(layer, name, None))
    experts.pack_weights(copy)
    experts.packed = copy
