"""Attention computed sequence by sequence, on any device and in any precision.

PyTorch's own attention computes a layer without soft cap and without sinks; other layers are computed from their
scores. Queries are split into blocks where a window or scores need it, so that no more keys are read than are visible,
and a sequence of ``n`` tokens under a window needs memory in proportion to ``n``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True, slots=True)
class AttentionScheme:
    """The attention of one layer; every token attends to itself and to earlier tokens of its own sequence."""

    scale: float | None = None
    """Factor of the products of queries and keys; None is one over the square root of the head size."""
    window: int | None = None
    """A token attends to this many tokens, itself included; None is all of them."""
    softcap: float | None = None
    """The scores ``s`` become ``softcap * tanh(s / softcap)``; None leaves them."""
    sinks: Tensor | None = None
    """(heads,): a score per head that takes part in the softmax, without a value; None has no sinks."""


QUERIES_PER_BLOCK = 512
"""Queries of one block."""


def attend_by_sequence(
    query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int], scheme: AttentionScheme
) -> Tensor:
    """Return the attention of packed sequences. (1, heads, tokens, dim).

    Args:
        query: (1, heads, tokens, dim); ``key`` and ``value`` may have fewer heads.
        lengths: tokens per sequence.
    """
    parts = zip(*(torch.split(one, list(lengths), 2) for one in (query, key, value)), strict=True)
    return torch.cat([block for q, k, v in parts for block in _sequence(q, k, v, scheme)], 2)


def _sequence(query: Tensor, key: Tensor, value: Tensor, scheme: AttentionScheme) -> Iterator[Tensor]:
    """Yield the attention of one sequence, in blocks of queries."""
    length, grouped = query.shape[2], query.shape[1] != key.shape[1]
    from_scores = scheme.softcap is not None or scheme.sinks is not None
    window = length if scheme.window is None else scheme.window
    if window >= length and not from_scores:
        yield scaled_dot_product_attention(query, key, value, is_causal=True, scale=scheme.scale, enable_gqa=grouped)
        return
    for start in range(0, length, QUERIES_PER_BLOCK):
        stop = min(start + QUERIES_PER_BLOCK, length)
        first = max(0, start - window + 1)
        visible = _visible(start, stop, first, window, query.device)
        block = query[:, :, start:stop], key[:, :, first:stop], value[:, :, first:stop]
        if from_scores:
            yield _attend_to_scores(*block, visible, scheme)
        else:
            yield scaled_dot_product_attention(*block, attn_mask=visible, scale=scheme.scale, enable_gqa=grouped)


def _visible(start: int, stop: int, first: int, window: int, device: torch.device) -> Tensor:
    """Return which keys ``first`` to ``stop`` the queries ``start`` to ``stop`` attend to. bool (queries, keys)."""
    distances = torch.arange(start, stop, device=device)[:, None] - torch.arange(first, stop, device=device)
    return (distances >= 0) & (distances < window)


def _attend_to_scores(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, scheme: AttentionScheme) -> Tensor:
    """Return the attention of a block from its scores, which are in float32 or wider."""
    groups = query.shape[1] // key.shape[1]
    keys, values = (one.repeat_interleave(groups, 1) for one in (key, value))
    products = query @ keys.transpose(-1, -2)
    scores = products.to(torch.promote_types(products.dtype, torch.float32))
    scores = scores * (query.shape[-1] ** -0.5 if scheme.scale is None else scheme.scale)
    if scheme.softcap is not None:
        scores = scheme.softcap * torch.tanh(scores / scheme.softcap)
    scores = scores.masked_fill(~visible, -torch.inf)
    if scheme.sinks is None:
        return scores.softmax(-1).to(value.dtype) @ values
    sinks = scheme.sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1].to(value.dtype) @ values
