"""A tree of turns: episodes branch at random turns, more often where the policy became uncertain.

Tree-GRPO (Ji et al. 2025, arXiv:2509.21240) grows trees whose nodes are turns by expanding nodes chosen at random. ARPO
(Dong et al. 2025, arXiv:2507.19849) branches where the entropy ``H_t`` after an observation exceeds the first one, by
``P_t = alpha + beta * (H_t - H_0)``. Here an episode branches after a turn with probability ``P_t``: at ``beta = 0`` at
random, else where the policy became uncertain. Three things differ from ARPO:

* ``H_t`` is the mean of minus the behavior log-probability of the turn's sampled tokens, an estimate of the entropy,
  and is not normalized;
* ``P_t`` is a probability, not compared with a threshold;
* the branch begins after the uncertain turn, and not within it.

A child shares the turns of its parent, which are trained on once. The parent links are in the records: the advantage
estimator ``tree`` compares siblings with them, and the default compares all members by their whole returns.
"""

from collections.abc import Sequence
from random import Random
from statistics import fmean

from pydantic import Field

from ....agents.rollout.control import Branch, Decision, GroupView, TurnView
from .base import RolloutController


class TurnTree(RolloutController):
    """Branch episodes into trees of turns, within a budget of children per group. Needs a restorable environment."""

    budget: int = Field(default=4, ge=1)
    """Children per group, in all trees together."""
    alpha: float = 0.2
    """Probability of a branch after a turn that is as uncertain as the first."""
    beta: float = 0.2
    """Change of that probability per nat of entropy above the first turn's."""

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Branch the member that took a turn with probability ``P_t``, if the budget is not used up."""
        latest, children = view.latest, sum(member.children for member in view.members)
        if not latest.running or children >= self.budget:
            return []
        probability = self.alpha + self.beta * (_entropy(latest.turns[-1]) - _entropy(latest.turns[0]))
        return [Branch(latest.member, 1)] if stream.random() < probability else []


def _entropy(turn: TurnView) -> float:
    """Return the estimated entropy per sampled token, in nats; 0 for a policy without tokens."""
    return -fmean(turn.logprobs) if turn.logprobs else 0.0
