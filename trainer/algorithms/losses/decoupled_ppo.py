"""The objective: decoupled PPO on tokens (AReaL, Fu et al. 2025), with its corrections.

Three policies: *behavior* sampled the token, *proximal* is where the update started, *current* is being updated. The
ratio current/proximal is clipped; the result is weighted by proximal/behavior, which is truncated or masked. The
denominator counts the tokens before any rejection, so that a rejected token never inflates the kept ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ....records import Source
from ..registry import Extension

if TYPE_CHECKING:
    from torch import Tensor

    from ..protocols import LossInputs


def clipped_surrogate(ratio: Tensor, advantages: Tensor, clip_low: float, clip_high: float) -> Tensor:
    """PPO's pessimistic loss a token: ``max(-A r, -A clip(r, 1 - low, 1 + high))``. Shapes (tokens,)."""
    return (-advantages * ratio).maximum(-advantages * ratio.clamp(1 - clip_low, 1 + clip_high))


def behavior_weight(proximal: Tensor, behavior: Tensor, cap: float, reject: Literal["truncate", "mask"]) -> Tensor:
    """``proximal / behavior`` a token, detached: capped, or zero above the cap. Shapes (tokens,)."""
    weight = (proximal - behavior).exp().detach()
    return weight.clamp(max=cap) if reject == "truncate" else weight * (weight <= cap)


class Decoupled(Extension):
    """Clipped current/proximal, weighted by proximal/behavior; an entropy bonus as an option."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY})

    clip_low: float = Field(0.2, gt=0)
    clip_high: float = Field(0.2, gt=0)
    behavior_cap: float = Field(5.0, ge=1)
    reject: Literal["truncate", "mask"] = "mask"
    entropy_bonus: float = Field(0.0, ge=0)

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """See ``protocols.PolicyLoss``."""
        ratio = (inputs.logprobs - inputs.proximal).exp()
        correction = behavior_weight(inputs.proximal, inputs.behavior, self.behavior_cap, self.reject)
        surrogate = clipped_surrogate(ratio, inputs.advantages, self.clip_low, self.clip_high)
        entropy = (inputs.weights * inputs.entropy).sum()
        loss = (inputs.weights * correction * surrogate).sum()
        if self.entropy_bonus:
            loss = loss - self.entropy_bonus * entropy
        trained = (inputs.weights > 0).float()
        clipped = (ratio < 1 - self.clip_low) | (ratio > 1 + self.clip_high)
        gap = inputs.logprobs - inputs.behavior
        metrics = {
            "entropy": (trained * inputs.entropy).sum(),
            "clipped": (trained * clipped).sum(),
            "rejected": (trained * ((inputs.proximal - inputs.behavior).exp() > self.behavior_cap)).sum(),
            "behavior_kl": (trained * (gap.exp() - 1 - gap)).sum(),
        }
        return loss / inputs.denominator, {name: value.detach() for name, value in metrics.items()}
