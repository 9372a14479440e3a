"""Aggregate one loss value per token to the loss of an optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .base import TokenBatch

if TYPE_CHECKING:
    from torch import Tensor

Aggregation = Literal["token_mean", "sequence_mean", "constant"]
"""See ``aggregate``."""
MIN_WEIGHT = 1e-8
"""Lower bound of a denominator."""


def aggregate(batch: TokenBatch, values: Tensor, mode: Aggregation, max_tokens: int) -> Tensor:
    """Return this micro-batch's share of the loss: the weighted sum of ``values`` over one of three denominators.

    * ``token_mean``: the sum of the token weights of the step, so that every token counts the same (DAPO, Yu et al.
      2025, arXiv:2503.14476).
    * ``sequence_mean``: the trained tokens of the sequence, then the sequences of the step, so that every sequence
      counts the same (GRPO, Shao et al. 2024, arXiv:2402.03300).
    * ``constant``: ``max_tokens`` times the sequences of the step, so that the length of a sequence changes no
      denominator (Dr. GRPO, Liu et al. 2025, arXiv:2503.20783).

    Args:
        values: (tokens,).
    """
    weighted = batch.weights * values
    if mode == "token_mean":
        return weighted.sum() / max(batch.totals.weight, MIN_WEIGHT)
    sequences = max(batch.totals.sequences, 1)
    if mode == "sequence_mean":
        return (weighted / batch.lengths[batch.sequence]).sum() / sequences
    return weighted.sum() / (max_tokens * sequences)
