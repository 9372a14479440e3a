"""Causal attention over sequences packed end to end without padding; each sequence attends only to itself.

* The implementation is registered with transformers under ``NAME``. ``packed`` sets the sequence lengths around a
  forward call.
* It is exact on any device for models with full causal attention in every layer. ``refuse_unsupported`` rejects other
  models by their configuration and class, before a run starts.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ....errors import TurnwiseError

NAME = "turnwise_packed"

UNSUPPORTED = ("sliding_window", "softcap", "s_aux")
"""Arguments of an attention layer that change its result: window, soft cap and attention sinks."""

_lengths: list[list[int]] = []


class AttentionNotSupported(TurnwiseError):
    """A layer of the model does not have full causal attention."""


def refuse_unsupported(model: Path, key: str = "model.path") -> None:
    """Raise unless the model in a Hugging Face folder can be trained on packed sequences. Reads no weights.

    Args:
        key: the configuration key that names the folder, for the error.

    Raises:
        AttentionNotSupported: the model has a sliding window, a logit soft cap, layers without full attention, or a
            class that does not use a registered attention.
        TurnwiseError: transformers cannot read the configuration of the model.
    """
    try:
        whole = AutoConfig.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise TurnwiseError(f"`{key}`: transformers cannot read {model}/config.json: {error}") from error
    config = whole.get_text_config()
    if feature := _unsupported(config) or _foreign_attention(whole):
        raise AttentionNotSupported(
            f"`{key}`: {model} ({config.model_type}) cannot be trained: it has {feature}, and the learner "
            f"computes full causal attention only. Set `{key}` to a model with full attention in every layer, such "
            "as Qwen3 or Llama 3"
        )


def _unsupported(config: Any) -> str:
    """Return the first attention feature that packed attention does not compute, or an empty string."""
    layers = set(getattr(config, "layer_types", None) or ())
    if others := sorted(layers - {"full_attention"}):
        return f"layers of the type {', '.join(others)}"
    if not layers and getattr(config, "sliding_window", None) is not None:
        return f"a sliding window of {config.sliding_window} tokens"
    if getattr(config, "attn_logit_softcapping", None) is not None:
        return f"a soft cap of {config.attn_logit_softcapping:g} on its attention logits"
    return ""


def _foreign_attention(config: Any) -> str:
    """Name the model class if it computes attention by itself, and would ignore the bounds of packed sequences."""
    model = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if model is None:
        return "no causal language model in transformers"
    return "" if model._supports_attention_backend else f"an attention fixed by its class `{model.__name__}`"


@contextmanager
def packed(lengths: Sequence[int]) -> Iterator[None]:
    """Split forward passes of shape (1, sum(lengths)) into sequences of these lengths inside the ``with`` block."""
    _lengths.append(list(lengths))
    try:
        yield
    finally:
        _lengths.pop()


def current_lengths() -> Sequence[int]:
    """Return the sequence lengths of the present ``with packed(lengths)`` block.

    Raises:
        RuntimeError: there is none.
    """
    if not _lengths:
        raise RuntimeError("packed attention was called outside `with packed(lengths)`: sequence lengths are missing")
    return _lengths[-1]


def packed_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """Compute causal attention within each sequence, and return it with None for the attention weights.

    Args:
        query: (1, heads, tokens, dim); ``key`` and ``value`` may have fewer heads.

    Returns:
        (1, tokens, heads, dim), and None.

    Raises:
        AttentionNotSupported: the layer uses a sliding window, a soft cap or attention sinks.
        RuntimeError: the call is not inside ``packed``.
    """
    if used := [name for name in UNSUPPORTED if other.get(name) is not None]:
        raise AttentionNotSupported(
            f"{type(module).__name__} uses `{used[0]}`, and the learner computes full causal attention only: set "
            "`model.path` to a model with full attention in every layer"
        )
    lengths = list(current_lengths())
    grouped = query.shape[1] != key.shape[1]
    parts = [
        scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=grouped)
        for q, k, v in zip(*(torch.split(one, lengths, 2) for one in (query, key, value)), strict=True)
    ]
    return torch.cat(parts, 2).transpose(1, 2).contiguous(), None


def _no_mask(*_: Any, **__: Any) -> None:
    return None


ALL_ATTENTION_FUNCTIONS.register(NAME, packed_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, _no_mask)
