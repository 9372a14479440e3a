"""Causal attention over sequences packed end to end without padding; each sequence attends only to itself.

* The implementation is registered with transformers under ``NAME``. ``packed`` sets the sequence lengths around a
  forward call.
* A layer may have a sliding window, a soft cap and attention sinks. ``supported.refuse_unsupported`` rejects models
  with any other attention by their configuration and class, before a run starts.
* Half precision on a GPU runs in one kernel (``fused_attention``); otherwise each sequence is computed separately
  (``attention_by_sequence``).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ....errors import TurnwiseError
from .attention_by_sequence import AttentionScheme, attend_by_sequence
from .fused_attention import attend_fused

NAME = "turnwise_packed"

SLIDING = "sliding_attention"
"""The name that transformers gives to layers with a sliding window."""

_lengths: list[list[int]] = []


class AttentionNotSupported(TurnwiseError):
    """A layer of the model has an attention that the learner does not compute."""


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
    *,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """Compute causal attention within each sequence, and return it with None for the attention weights.

    Args:
        query: (1, heads, tokens, dim); ``key`` and ``value`` may have fewer heads.
        s_aux: the attention sinks, (heads,).

    Returns:
        (1, tokens, heads, dim), and None.

    Raises:
        AttentionNotSupported: the layer's window does not agree with the model's configuration.
        RuntimeError: the call is not inside ``packed``.
    """
    _check_window(module, sliding_window)
    scheme = AttentionScheme(scaling, sliding_window, softcap, s_aux)
    query, key = query.to(value.dtype), key.to(value.dtype)
    fused = value.is_cuda and value.dtype in (torch.bfloat16, torch.float16)
    attend = attend_fused if fused else attend_by_sequence
    return attend(query, key, value, current_lengths(), scheme).transpose(1, 2).contiguous(), None


def _check_window(module: Any, window: int | None) -> None:
    """Raise unless a layer passes its window exactly if its configuration says that it has one."""
    types = getattr(getattr(module, "config", None), "layer_types", None)
    if types and (types[module.layer_idx] == SLIDING) != (window is not None):
        raise AttentionNotSupported(
            f"layer {module.layer_idx} of the type `{types[module.layer_idx]}` passes the window {window} to its "
            f"attention (`{type(module).__name__}`): the learner cannot train this model; set `model.path` to another"
        )


def _no_mask(*_: Any, **__: Any) -> None:
    return None


ALL_ATTENTION_FUNCTIONS.register(NAME, packed_attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, _no_mask)
