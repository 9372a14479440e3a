"""Where the proximal log-probabilities come from: the anchor of the trust region."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..registry import Extension

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class Recompute(Extension):
    """The learner's own policy at the start of the update. With one optimizer step a batch that is the pass itself,
    for free.
    """

    needs_pass: ClassVar[bool] = True

    def logprobs(self, current: Tensor, behavior: Tensor) -> Tensor:
        """The current log-probabilities, detached."""
        return current.detach()

    def after_step(self, model: Module) -> None:
        """Nothing to keep."""


class Behavior(Extension):
    """The behavior policy itself: the objective becomes PPO's."""

    needs_pass: ClassVar[bool] = False

    def logprobs(self, current: Tensor, behavior: Tensor) -> Tensor:
        """The behavior log-probabilities."""
        return behavior.detach()

    def after_step(self, model: Module) -> None:
        """Nothing to keep."""
