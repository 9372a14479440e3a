"""Groups loaded to be scored, kept until the learner leases them, so that each is read from the database once.

The trajectories of a closed group no longer change, so a kept group equals the stored one.
"""

from collections import OrderedDict
from collections.abc import Iterable

from ..records import Group

MAX_SIZE = 1 << 24
"""Tokens and characters of observations that are kept; the oldest groups are dropped above it."""


class RecentGroups:
    """The latest loaded groups, up to ``MAX_SIZE``."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, tuple[Group, bool, int]] = OrderedDict()
        self._size = 0

    def add(self, group: Group, *, texts: bool) -> None:
        """Keep a group in place of an earlier one of its id; ``texts`` says whether it has its observation texts."""
        self._remove(group.id)
        size = _size(group)
        self._groups[group.id] = group, texts, size
        self._size += size
        while self._size > MAX_SIZE:
            self._remove(next(iter(self._groups)))

    def take(self, names: Iterable[str], *, texts: bool) -> dict[str, Group]:
        """Remove groups and return those that are kept, by id; with ``texts``, those that have their texts."""
        taken = {name: kept for name in names if (kept := self._remove(name))}
        return {name: group for name, (group, has_texts, _) in taken.items() if has_texts or not texts}

    def _remove(self, name: str) -> tuple[Group, bool, int] | None:
        kept = self._groups.pop(name, None)
        if kept is not None:
            self._size -= kept[2]
        return kept


def _size(group: Group) -> int:
    tokens = sum(len(message.tokens) for one in group.trajectories for message in one.messages)
    return tokens + sum(len(step.observation) for one in group.trajectories for step in one.steps)
