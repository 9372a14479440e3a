"""Which models the learner can train: decided from ``config.json`` and the class, before a run starts."""

from pathlib import Path
from typing import Any

from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING, AutoConfig

from ....agents.engine.config import IMAGE_TYPES, refuse_other_images
from ....errors import TurnwiseError
from .packed_attention import SLIDING, AttentionNotSupported

LAYER_TYPES = frozenset({"full_attention", SLIDING, "attention"})
"""Types of layers whose attention the learner computes."""
LAYER_LISTS = ("layer_types", "layers_block_type", "block_types")
"""Keys of ``config.json`` that list the types of the layers."""


class ModelNotSupported(TurnwiseError):
    """The learner cannot train the model, for a reason other than its attention."""


def refuse_unsupported(model: Path, key: str = "model.path") -> Any:
    """Return the configuration of a model that the learner can train. Reads no weights.

    Args:
        model: a Hugging Face folder.
        key: the configuration key that names the folder, for the error.

    Raises:
        AttentionNotSupported: the model has layers with another attention than full or sliding, or a class that does
            not use a registered attention.
        ImagesNotSupported: it reads more than text, and is of none of the families that play.
        ModelNotSupported: its weights are quantized.
        TurnwiseError: transformers cannot read the configuration of the model.
    """
    config = read_config(model, key)
    refuse_unsupported_config(config, str(model), key)
    return config


def read_config(model: Path, key: str) -> Any:
    """Return the configuration of a model.

    Raises:
        TurnwiseError: transformers cannot read it.
    """
    try:
        return AutoConfig.from_pretrained(model, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # each class of transformers checks its values in its own way
        reason = str(error).strip().partition("\n")[0]
        raise TurnwiseError(f"`{key}`: transformers cannot read {model}/config.json: {reason}") from error


def refuse_unsupported_config(config: Any, model: str, key: str) -> None:
    """Refuse the configuration of a model that the learner cannot train; ``model`` and ``key`` are for the error.

    Raises:
        AttentionNotSupported, ImagesNotSupported, ModelNotSupported: as above.
    """
    refuse_other_images(config, model, key)
    if feature := _unsupported_attention(config.get_text_config()) or _foreign_attention(config):
        raise AttentionNotSupported(
            f"`{key}`: {model} ({config.model_type}) cannot be trained: it has {feature}, and the learner computes "
            "full and sliding attention in classes of `transformers` that use its attention interface. Set "
            f"`{key}` to a model of another family (`docs/models.md`)"
        )
    refuse_quantized(config, model, key)


def refuse_quantized(config: Any, model: str, key: str) -> None:
    """Refuse a model whose weights are quantized: the learner cannot train them, and the checks cannot read them.

    Raises:
        ModelNotSupported: as above.
    """
    if getattr(config, "quantization_config", None):
        raise ModelNotSupported(
            f"`{key}`: {model} ({config.model_type}) cannot be used: its weights are quantized "
            f"(`quantization_config`). Set `{key}` to the same model in bfloat16"
        )


def _unsupported_attention(config: Any) -> str:
    """Return the first attention feature that the learner does not compute, or an empty string."""
    kinds = {kind for name in LAYER_LISTS for kind in getattr(config, name, None) or ()}
    others = sorted(kinds - LAYER_TYPES)
    if others:
        return f"layers of the type {', '.join(others)}"
    if getattr(config, "use_bidirectional_attention", None):
        return "attention to later tokens (`use_bidirectional_attention`)"
    return ""


def _foreign_attention(config: Any) -> str:
    """Name the model class if it computes attention by itself, and would ignore the bounds of packed sequences."""
    is_vision = config.model_type in IMAGE_TYPES
    mapping = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING if is_vision else MODEL_FOR_CAUSAL_LM_MAPPING
    model = mapping.get(type(config), None)
    if model is None:
        return "no causal language model in transformers"
    return "" if model._supports_attention_backend else f"an attention fixed by its class `{model.__name__}`"
