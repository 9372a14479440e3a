"""The behavior policy as the proximal policy: plain PPO (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import ProximalPolicy, ProximalTokens, Score

if TYPE_CHECKING:
    from torch import Tensor


class Behavior(ProximalPolicy):
    """The policy that sampled each token."""

    def logprobs(self, tokens: ProximalTokens, score: Score) -> Tensor:
        """Return the behavior log-probabilities."""
        return tokens.behavior
