"""How often the limits of the horizon cut turns and end episodes: the metrics, and the warning."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ...records import Limit, Outcome, Trajectory

ENDING = (Limit.TURNS, Limit.TOKENS_PER_EPISODE, Limit.CONTEXT)
"""The limits that end an episode; `max_tokens_per_turn` cuts a turn."""
NOTABLE_SHARE = 0.1
"""The share above which a limit is shown with an update, and one on tokens is warned of."""


@dataclass(slots=True)
class LimitCounts:
    """Episodes and turns, and those of them that a limit ended."""

    episodes: int = 0
    turns: int = 0
    tokens: int = 0
    """Tokens that the policy sampled."""
    cut_turns: int = 0
    """Turns whose answer a limit on tokens ended before the policy did."""
    ended: Counter[Limit] = field(default_factory=Counter)
    """Episodes that each limit truncated."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Self:
        """Return the counts of finished episodes."""
        counts = cls()
        for one in outcomes:
            counts._add(one.turns, one.tokens, one.cut_turns, one.reached)
        return counts

    @classmethod
    def of_trajectories(cls, trajectories: Iterable[Trajectory]) -> Self:
        """Return the counts of trajectories with their steps and messages."""
        counts = cls()
        for one in trajectories:
            tokens = sum(int(np.asarray(message.mask).sum()) for message in one.messages)
            counts._add(len(one.steps), tokens, sum(step.cut_by is not None for step in one.steps), one.reached)
        return counts

    def _add(self, turns: int, tokens: int, cut_turns: int, reached: Limit | None) -> None:
        self.episodes += 1
        self.turns += turns
        self.tokens += tokens
        self.cut_turns += cut_turns
        if reached is not None:
            self.ended[reached] += 1

    def metrics(self) -> dict[str, float]:
        """Return the shares and the mean length by metric; ``docs/guide/metrics.md`` explains each."""
        turns, episodes = max(self.turns, 1), max(self.episodes, 1)
        return {
            "response_tokens": self.tokens / turns,
            "cut_turn_fraction": self.cut_turns / turns,
            **{f"{limit}_fraction": self.ended[limit] / episodes for limit in ENDING},
        }


def notable(metrics: Mapping[str, float]) -> dict[Limit, float]:
    """Return the limits whose share in ``LimitCounts.metrics`` is above ``NOTABLE_SHARE``, with it."""
    names = {Limit.TOKENS_PER_TURN: "cut_turn_fraction"} | {limit: f"{limit}_fraction" for limit in ENDING}
    return {limit: share for limit, name in names.items() if (share := metrics.get(name, 0.0)) > NOTABLE_SHARE}


_EFFECTS: Mapping[Limit, str] = {
    Limit.TOKENS_PER_TURN: "cut {share:.0%} of the answers before their end: the environment reads the part",
    Limit.TOKENS_PER_EPISODE: "ended {share:.0%} of the episodes",
    Limit.CONTEXT: "ended {share:.0%} of the episodes: the conversation no longer fits",
}


def warning(limit: Limit, share: float, where: str) -> str:
    """Return the warning of a limit on tokens; empty for the one on turns, which ends each episode of an unsolved task.

    Args:
        where: the episodes, such as ``update 3``.
    """
    if limit not in _EFFECTS:
        return ""
    return f"{where}: `horizon.{limit}` {_EFFECTS[limit].format(share=share)}; raise it, or shorten the answers"
