"""Aggregate one loss value per token to the loss of an optimizer step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .base import TokenBatch

if TYPE_CHECKING:
    from torch import Tensor

Aggregation = Literal["token_mean", "sequence_mean", "constant"]
"""See ``aggregate``."""


def aggregate(batch: TokenBatch, values: Tensor, mode: Aggregation, max_tokens: int | None) -> Tensor:
    """Return this micro-batch's share of the loss: the weighted sum of ``values`` over one of three denominators.

    A weight changes the sum and no denominator: a token with a lower weight adds nothing to the others.

    * ``token_mean``: the trained tokens of the step, so that every token counts the same (DAPO, Yu et al. 2025,
      arXiv:2503.14476).
    * ``sequence_mean``: the trained tokens of the sequence, then the sequences of the step, so that every sequence
      counts the same (GRPO, Shao et al. 2024, arXiv:2402.03300).
    * ``constant``: ``max_tokens`` times the sequences of the step, so that the length of a sequence changes no
      denominator (Dr. GRPO, Liu et al. 2025, arXiv:2503.20783, whose constant is the budget of tokens).

    Args:
        values: (tokens,).

    Raises:
        ValueError: ``constant`` without ``max_tokens``, which a run's configuration sets.
    """
    weighted = batch.weights * values
    if mode == "token_mean":
        return weighted.sum() / max(batch.totals.tokens, 1)
    sequences = max(batch.totals.sequences, 1)
    if mode == "sequence_mean":
        return (weighted / batch.lengths[batch.sequence]).sum() / sequences
    if max_tokens is None:
        raise ValueError('`aggregation = "constant"` needs `max_tokens`')
    return weighted.sum() / (max_tokens * sequences)
