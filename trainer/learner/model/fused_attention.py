"""Attention over all packed sequences in one kernel (PyTorch's flex-attention), for GPUs.

The bounds of the sequences and the window are a mask of blocks, so that invisible blocks are skipped; a soft cap is a
change of the scores. Every combination of window, soft cap, sinks and gradient is compiled once; without a kernel,
flex-attention would hold the scores of all pairs of tokens, so a combination that cannot be compiled raises. Attention
sinks follow from the sum ``Z`` of the exponentiated scores of a query: a sink ``s``
scales its attention by ``Z / (Z + exp(s))``. On a CPU the same function runs without a kernel, for tests.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

from .attention_by_sequence import AttentionScheme

MASKS = 8
"""Masks of blocks that are kept: one per set of lengths and window."""
COMPILATIONS = {"recompile_limit": 64, "specialize_float": True}
"""Settings of the compiler: it keeps this many combinations, and takes a soft cap for a constant. A float of variable
value cannot be compiled inside of flex-attention (torch 2.11)."""


def attend_fused(query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int], scheme: AttentionScheme) -> Tensor:
    """Return the attention of packed sequences. (1, heads, tokens, dim).

    Args:
        query: (1, heads, tokens, dim); ``key`` and ``value`` may have fewer heads.
        lengths: tokens per sequence.
    """
    from torch._dynamo import config
    from torch.nn.attention.flex_attention import AuxRequest

    attention = _kernel() if query.is_cuda else _without_kernel()
    mask = block_mask(tuple(lengths), scheme.window, query.device)
    with config.patch(COMPILATIONS):
        result, more = attention(
            query,
            key,
            value,
            score_mod=None if scheme.softcap is None else _cap(scheme.softcap),
            block_mask=mask,
            scale=scheme.scale,
            enable_gqa=query.shape[1] != key.shape[1],
            return_aux=AuxRequest(lse=scheme.sinks is not None),
        )
    if scheme.sinks is None:
        return torch.as_tensor(result)
    share = torch.sigmoid(more.lse - scheme.sinks.to(more.lse.dtype)[:, None])
    return torch.as_tensor(result * share[..., None].to(result.dtype))


@lru_cache(MASKS)
def block_mask(lengths: tuple[int, ...], window: int | None, device: torch.device) -> Any:
    """Return the mask of blocks of packed sequences under a window."""
    from torch.nn.attention.flex_attention import create_block_mask

    total = sum(lengths)
    sequences = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(device)

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = (sequences[query] == sequences[key]) & (query >= key)
        return seen if window is None else seen & (query - key < window)

    return create_block_mask(visible, None, None, total, total, device=device)


@cache
def _cap(softcap: float) -> Callable[..., Tensor]:
    def capped(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return softcap * torch.tanh(score / softcap)

    return capped


def _without_kernel() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention


@cache
def _kernel() -> Any:
    return torch.compile(_without_kernel(), dynamic=True, fullgraph=True)
