"""AReaL's log-linear approximation of the proximal policy, without a forward pass (``prox_logp_method: loglinear``).

Source: AReaL, Fu et al. 2025, arXiv:2505.24298, ``compute_prox_logp_approximations`` in its repository.

The log-probabilities of the behavior and the current policy are interpolated by versions: ``log prox = log behavior +
alpha (log current - log behavior)`` with ``alpha = (v_prox - v_behavior) / (v_current - v_behavior)``. The update
creates version ``v_current = v_prox + 1``. For a token of staleness ``s = v_prox - v_behavior``, ``alpha`` is
``s / (s + 1)``.

The clip range widens with staleness: the ratio current/proximal is (current/behavior)^(1 - alpha), so a bound of
``1 + eps`` on it is a bound of ``(1 + eps)^(s + 1)`` on current/behavior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import ProximalPolicy, ProximalTokens, Score

if TYPE_CHECKING:
    from torch import Tensor


class LogLinear(ProximalPolicy):
    """Between behavior and current policy, by staleness: the older a token, the closer to the current policy."""

    def logprobs(self, tokens: ProximalTokens, score: Score) -> Tensor:
        """Return the interpolated log-probabilities; the behavior's where no version sampled the token."""
        staleness = tokens.staleness.clamp(min=0)
        alpha = staleness / (staleness + 1)
        return tokens.behavior + alpha * (tokens.current - tokens.behavior)
