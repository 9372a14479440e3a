"""Decoupled PPO on tokens (AReaL, Fu et al. 2025, arXiv:2505.24298), with truncated or masked importance sampling.

Three policies take part: the *behavior* policy sampled the token, the *proximal* policy is where the update started,
and the *current* policy is being updated. The ratio current/proximal is clipped, and the result is weighted by
proximal/behavior, which is capped. The denominator counts the tokens before any rejection, so a rejected token never
raises the weight of the others.

Options change the parts that the papers of the field vary: the aggregation over tokens (``base.aggregate``), an entropy
bonus, and a penalty on the KL divergence from a reference policy. The penalty is weighted by min(proximal/behavior,
cap), since its estimators are those of tokens that the updated policy samples.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import Field

from ....records import Source
from .base import AggregatedLoss, LossOutput, Metric, Need, TokenBatch, aggregate, k3

if TYPE_CHECKING:
    from torch import Tensor

KLEstimator: TypeAlias = Literal["k1", "k2", "k3"]
"""An estimator of the KL divergence from the reference policy on sampled tokens (Schulman 2020, "Approximating KL
divergence"). With ``d = log current - log reference`` of a token that the current policy ``p`` sampled, and ``q`` the
reference::

    k1 = d                     unbiased; as a function it has no gradient in expectation
    k2 = d^2 / 2               biased; its gradient, d * grad log p, is that of KL(p || q) in expectation
    k3 = exp(-d) - 1 + d       unbiased and never negative; its gradient is that of KL(q || p), not of KL(p || q)

So ``k1`` is a cost in the reward, ``k2`` and ``k3`` are terms of the loss. GRPO (Shao et al. 2024, equation 4) has
``k3`` in the loss.
"""


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


def clipped_surrogate(ratio: Tensor, advantages: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """Return PPO's pessimistic loss per token: ``max(-A r, -A clip(r, 1 - low, 1 + high))``. Shapes (tokens,)."""
    lowest, highest = ratio.new_tensor(1.0) - low, ratio.new_tensor(1.0) + high
    return (-advantages * ratio).maximum(-advantages * ratio.clamp(lowest, highest))


def importance_weight(proximal: Tensor, behavior: Tensor, cap: float, mode: Literal["truncate", "mask"]) -> Tensor:
    """Return ``proximal / behavior`` per token, detached: truncated at ``cap``, or 0 above it. Shapes (tokens,)."""
    weight = (proximal - behavior).exp().detach()
    return weight.clamp(max=cap) if mode == "truncate" else weight * (weight <= cap)


class DecoupledPPO(AggregatedLoss):
    """Clipped ratio current/proximal, weighted by proximal/behavior, with an optional entropy bonus."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY, Source.REPLAY})

    clip_ratio_low: float = Field(0.2, gt=0)
    """The ratio is clipped below 1 minus this value."""
    clip_ratio_high: float = Field(0.2, gt=0)
    """The ratio is clipped above 1 plus this value."""
    is_cap: float = Field(2.0, ge=1)
    """Cap of the importance weight proximal/behavior."""
    is_mode: Literal["truncate", "mask"] = "truncate"
    """Above ``is_cap``: ``truncate`` lowers the weight to the cap, ``mask`` drops the token."""
    entropy_coef: float = Field(0.0, ge=0)
    """Coefficient of the entropy bonus."""
    reference_kl_coef: float = Field(0.0, ge=0)
    """Coefficient of the KL divergence from the reference policy (``model.reference``)."""
    kl_estimator: KLEstimator = "k2"
    """The estimate of that divergence per token: ``k1`` in the reward, ``k2`` or ``k3`` in the loss. ``k1`` and ``k2``
    have the gradient of KL(current || reference), ``k3`` (GRPO) that of KL(reference || current)."""

    @property
    def needs(self) -> frozenset[Need]:
        """Return the entropy, with gradient if there is a bonus, and the reference policy if there is a penalty."""
        entropy = Need.ENTROPY_GRADIENT if self.entropy_coef else Need.ENTROPY
        return frozenset({entropy, Need.REFERENCE} if self.reference_kl_coef else {entropy})

    def log_ratio(self, batch: TokenBatch) -> Tensor:
        """Return the logarithm of the ratio that is clipped, per token, with gradient. Shape (tokens,)."""
        return batch.logprobs - batch.proximal

    def clip_range(self, batch: TokenBatch) -> tuple[Tensor | float, Tensor | float]:
        """Return how far below and above 1 the ratio may be: numbers, or tensors without gradient (tokens,)."""
        return self.clip_ratio_low, self.clip_ratio_high

    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return the loss over the denominator, and metrics."""
        ratio = self.log_ratio(batch).exp()
        correction = importance_weight(batch.proximal, batch.behavior, self.is_cap, self.is_mode)
        low, high = self.clip_range(batch)
        advantages = batch.advantages
        if self.reference_kl_coef:
            advantages = advantages - self.reference_kl_coef * reward_penalty(batch, self.kl_estimator)
        values = correction * clipped_surrogate(ratio, advantages, low, high)
        trained = batch.weights > 0
        metrics = {
            "entropy": Metric(batch.entropy[trained]),
            "clip_fraction": Metric(((ratio < 1 - low) | (ratio > 1 + high))[trained]),
            "is_cap_fraction": Metric(((batch.proximal - batch.behavior).exp() > self.is_cap)[trained]),
            "behavior_kl": Metric(k3(batch.logprobs - batch.behavior)[trained]),
        }
        if self.entropy_coef:
            values = values - self.entropy_coef * batch.entropy
        if self.reference_kl_coef:
            truncated = importance_weight(batch.proximal, batch.behavior, self.is_cap, "truncate")
            values = values + self.reference_kl_coef * truncated * loss_penalty(batch, self.kl_estimator)
            metrics["reference_kl"] = Metric((truncated * k3(batch.reference - batch.logprobs))[trained])
        return LossOutput(aggregate(batch, values, self.aggregation, self.max_tokens), metrics)
