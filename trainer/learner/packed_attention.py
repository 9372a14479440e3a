"""Attention over sequences packed end to end, without padding: each attends to itself alone.

Registered with transformers under ``NAME``; the lengths of a pass are given around the forward call. Exact on any
device; a GPU run may set ``attn_implementation`` to a fused variable-length kernel instead.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "turnwise_packed"

_lengths: list[list[int]] = []


@contextmanager
def packed(lengths: Sequence[int]) -> Iterator[None]:
    """Within, a forward pass of shape (1, sum(lengths)) is read as ``len(lengths)`` sequences."""
    _lengths.append(list(lengths))
    try:
        yield
    finally:
        _lengths.pop()


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
    """Causal attention within each sequence. ``query`` is (1, heads, tokens, dim); returns (1, tokens, heads, dim)."""
    if odd := [name for name in ("sliding_window", "softcap") if other.get(name) is not None]:
        raise NotImplementedError(f"packed attention does not do {odd[0]}: set another attention for this model")
    if not _lengths:
        raise RuntimeError("packed attention outside packed(lengths): the lengths of the sequences are not known")
    lengths = _lengths[-1]
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
