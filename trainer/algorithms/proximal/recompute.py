"""The learner's policy at the start of the update, as in AReaL's decoupled PPO (Fu et al. 2025, arXiv:2505.24298)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .base import ProximalPolicy, ProximalTokens, Score

if TYPE_CHECKING:
    from torch import Tensor


class Recompute(ProximalPolicy):
    """The learner's policy at the start of the update.

    With one optimizer step per batch, the training pass itself computes it, at no extra cost.
    """

    needs_start: ClassVar[bool] = True

    def logprobs(self, tokens: ProximalTokens, score: Score) -> Tensor:
        """Return the log-probabilities at the start of the update."""
        assert tokens.start is not None  # noqa: S101 - ``needs_start`` is set
        return tokens.start
