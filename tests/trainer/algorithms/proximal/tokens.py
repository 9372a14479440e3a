"""Tokens that a proximal policy scores, from lists of numbers."""

from collections.abc import Sequence

import torch
from torch import Tensor
from turnwise.trainer.algorithms.proximal.base import ProximalTokens, Weights


def proximal_tokens(
    behavior: Sequence[float], current: Sequence[float], staleness: Sequence[int] | None = None
) -> ProximalTokens:
    """Return tokens with these log-probabilities. They start the update with the current ones plus 1."""
    zeros = torch.zeros(len(behavior), dtype=torch.int64)
    now = torch.tensor(current)
    ages = torch.tensor(staleness) if staleness else zeros
    return ProximalTokens(zeros, zeros, ages, torch.tensor(behavior), now, now + 1)


def never_scored(weights: Weights) -> Tensor:
    """Raise: the test expects no forward pass."""
    raise AssertionError("a forward pass was made")
