"""The base class of policy losses, and the tokens they are computed on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ....records import Source
from ..component import Component

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class LossInputs:
    """The trained tokens of one micro-batch, flat: every tensor is float32 of shape (tokens,)."""

    logprobs: Tensor
    """Current log-probabilities, with gradient."""
    entropy: Tensor
    """Entropy of the current distribution at each token, in nats, with gradient."""
    proximal: Tensor
    """Log-probabilities under the proximal policy."""
    behavior: Tensor
    """Log-probabilities under the policy that sampled the token."""
    advantages: Tensor
    weights: Tensor
    denominator: float
    """Sum of the weights over the whole optimizer step, before any rejection."""


class PolicyLoss(Component, ABC):
    """The objective of an update."""

    slot: ClassVar[str] = "loss"
    default: ClassVar[str] = "decoupled_ppo"

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY})
    """Sources of the tokens that this loss is computed on."""

    @abstractmethod
    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """Return this micro-batch's share of the loss and sums of metrics over its tokens.

        The loss is a scalar, already divided by ``inputs.denominator``.
        """
