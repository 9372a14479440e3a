"""Decoupled PPO on tokens (AReaL, Fu et al. 2025), with truncated or masked importance sampling.

Three policies take part: the *behavior* policy sampled the token, the *proximal* policy is where the update started,
and the *current* policy is being updated. The ratio current/proximal is clipped, and the result is weighted by
proximal/behavior, which is capped. The denominator counts the tokens before any rejection, so a rejected token never
raises the weight of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from .base import LossInputs, PolicyLoss

if TYPE_CHECKING:
    from torch import Tensor


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_ratio_low: float, clip_ratio_high: float) -> Tensor:
    """Return PPO's pessimistic loss per token: ``max(-A r, -A clip(r, 1 - low, 1 + high))``. Shapes (tokens,)."""
    return (-advantages * ratio).maximum(-advantages * ratio.clamp(1 - clip_ratio_low, 1 + clip_ratio_high))


def importance_weight(proximal: Tensor, behavior: Tensor, cap: float, mode: Literal["truncate", "mask"]) -> Tensor:
    """Return ``proximal / behavior`` per token, detached: truncated at ``cap``, or 0 above it. Shapes (tokens,)."""
    weight = (proximal - behavior).exp().detach()
    return weight.clamp(max=cap) if mode == "truncate" else weight * (weight <= cap)


class DecoupledPPO(PolicyLoss):
    """Clipped ratio current/proximal, weighted by proximal/behavior, with an optional entropy bonus."""

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

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss over the denominator, and sums of metrics."""
        ratio = (inputs.logprobs - inputs.proximal).exp()
        correction = importance_weight(inputs.proximal, inputs.behavior, self.is_cap, self.is_mode)
        surrogate = clipped_surrogate(ratio, inputs.advantages, self.clip_ratio_low, self.clip_ratio_high)
        entropy = (inputs.weights * inputs.entropy).sum()
        loss = (inputs.weights * correction * surrogate).sum()
        if self.entropy_coef:
            loss = loss - self.entropy_coef * entropy
        trained = (inputs.weights > 0).float()
        clipped = (ratio < 1 - self.clip_ratio_low) | (ratio > 1 + self.clip_ratio_high)
        gap = inputs.logprobs - inputs.behavior
        metrics = {
            "entropy": (trained * inputs.entropy).sum(),
            "clip_fraction": (trained * clipped).sum(),
            "is_cap_fraction": (trained * ((inputs.proximal - inputs.behavior).exp() > self.is_cap)).sum(),
            "behavior_kl": (trained * (gap.exp() - 1 - gap)).sum(),
        }
        return loss / inputs.denominator, {name: value.detach() for name, value in metrics.items()}
