"""The groups that were filtered, by reason."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from ...records import ScoredGroup


@dataclass(frozen=True, slots=True)
class Filtered:
    """Groups that were filtered for one reason."""

    groups: int = 0
    members: int = 0
    returns: float = 0.0
    """Sum of the shaped returns of the members."""

    def plus(self, scored: ScoredGroup) -> Self:
        """Return the counts with one more group."""
        returns = sum(sum(turns) for turns in scored.rewards)
        return type(self)(self.groups + 1, self.members + len(scored.rewards), self.returns + returns)

    def since(self, before: Self) -> Self:
        """Return the counts since ``before``."""
        return type(self)(self.groups - before.groups, self.members - before.members, self.returns - before.returns)


@dataclass(slots=True)
class FilterTally:
    """The filtered groups of a run, by reason."""

    by_reason: dict[str, Filtered] = field(default_factory=dict)

    def add(self, reason: str, scored: ScoredGroup) -> None:
        """Count a group that was filtered."""
        self.by_reason[reason] = self.by_reason.get(reason, Filtered()).plus(scored)

    def text(self, before: Mapping[str, Filtered]) -> str:
        """Return the number of groups that were filtered since ``before``, by reason, with their mean return."""
        new = {reason: one.since(before.get(reason, Filtered())) for reason, one in self.by_reason.items()}
        parts = [
            f"{one.groups} {reason}, mean return {one.returns / max(one.members, 1):.2f}"
            for reason, one in new.items()
            if one.groups
        ]
        total = sum(one.groups for one in new.values())
        return f"{total} filtered ({'; '.join(parts)})" if parts else "0 filtered"
