"""Which models vLLM 0.32 cannot serve as the learner trains them: decided from ``config.json``, before a run starts."""

from typing import Any

from ...errors import TurnwiseError
from .config import EngineConfig

CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Attention head sizes that vLLM supports on a CPU; its process dies with any other."""
EXPERT_GRAIN = 32
"""vLLM's kernel for experts on a CPU needs hidden sizes that are multiples of this."""
ONE_WINDOW = frozenset({"qwen2", "qwen3"})
"""Values of ``model_type`` whose class in vLLM refuses a mixture of sliding and full layers."""


class ModelNotServable(TurnwiseError):
    """The engines cannot serve the model."""


def refuse_unservable(model: Any, engine: EngineConfig, max_model_len: int, key: str = "model.path") -> None:
    """Raise unless engines can serve a model exactly as `transformers` computes it.

    Args:
        model: the configuration of the model, as `transformers` reads it.
        max_model_len: prompt and completion together, in tokens.
        key: the configuration key that names the model, for the error.

    Raises:
        ModelNotServable: they cannot; the message says why.
    """
    if reason := _on_any_device(model, max_model_len) or ("" if engine.tensor_parallel_size else _on_a_cpu(model)):
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
    return [parameters] if "rope_type" in parameters else [one for one in parameters.values() if isinstance(one, dict)]


def _on_a_cpu(model: Any) -> str:
    heads = getattr(model, "head_dim", None) or model.hidden_size // model.num_attention_heads
    if heads not in CPU_HEAD_SIZES:
        sizes = ", ".join(map(str, CPU_HEAD_SIZES))
        return f"its attention heads have the size {heads}, and vLLM's build for CPUs supports {sizes} only"
    experts = getattr(model, "num_experts", None) or getattr(model, "num_local_experts", None)
    if experts and model.hidden_size % EXPERT_GRAIN:
        return f"its hidden size is {model.hidden_size}, and vLLM's experts on a CPU need a multiple of {EXPERT_GRAIN}"
    return ""
