"""Estimators of the KL divergence from the reference policy on sampled tokens (Schulman 2020, "Approximating KL
divergence"), as penalties.

With ``d = log current - log reference`` of a token that the current policy ``p`` sampled, and ``q`` the reference::

    k1 = d                     unbiased; as a function it has no gradient in expectation
    k2 = d^2 / 2               biased; its gradient, d * grad log p, is that of KL(p || q) in expectation
    k3 = exp(-d) - 1 + d       unbiased and never negative; its gradient is that of KL(q || p), not of KL(p || q)

So ``k1`` is a cost in the reward, ``k2`` and ``k3`` are terms of the loss. GRPO (Shao et al. 2024, equation 4) has
``k3`` in the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from .base import TokenBatch, k3

if TYPE_CHECKING:
    from torch import Tensor

KLEstimator: TypeAlias = Literal["k1", "k2", "k3"]


def reward_penalty(batch: TokenBatch, estimator: KLEstimator) -> Tensor | float:
    """Return the part of the penalty that the advantage of a token is lowered by, without gradient. (tokens,)."""
    return (batch.logprobs - batch.reference).detach() if estimator == "k1" else 0.0


def loss_penalty(batch: TokenBatch, estimator: KLEstimator) -> Tensor | float:
    """Return the part of the penalty that is added to the loss of a token, with gradient. Shape (tokens,)."""
    difference = batch.logprobs - batch.reference
    match estimator:
        case "k1":
            return 0.0
        case "k2":
            return difference.square() / 2
        case "k3":
            return k3(-difference)
