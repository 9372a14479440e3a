"""The learner's policy at the start of the update, as in AReaL's decoupled PPO."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .base import ProximalPolicy

if TYPE_CHECKING:
    from torch import Tensor


class Recompute(ProximalPolicy):
    """The learner's policy at the start of the update.

    With one optimizer step per batch, the training pass itself computes it, at no extra cost.
    """

    needs_forward_pass: ClassVar[bool] = True

    def logprobs(self, current: Tensor, behavior: Tensor) -> Tensor:
        """Return the current log-probabilities, detached."""
        return current.detach()
