"""Groups loaded to be scored, kept until the learner leases them, so that each is read from the database once.

The trajectories of a closed group no longer change, so a kept group equals the stored one.
"""

from collections import OrderedDict
from collections.abc import Iterable

from ..records import Group

MAX_BYTES = 256 << 20
"""Memory of the kept groups, about; the oldest are dropped above it."""
RECORD_BYTES = 1024
"""Memory of a step or message without its content, about."""


class RecentGroups:
    """The latest loaded groups, up to ``MAX_BYTES``."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, tuple[Group, bool, int]] = OrderedDict()
        self._size = 0

    def add(self, group: Group, *, texts: bool) -> None:
        """Keep a group in place of an earlier one of its id; ``texts`` says whether it has its observation texts."""
        self._remove(group.id)
        size = _size(group)
        self._groups[group.id] = group, texts, size
        self._size += size
        while self._size > MAX_BYTES:
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
    """Return the bytes of a group: 13 per token (its id, mask, log-probability and version), 4 per character."""
    messages = [message for one in group.trajectories for message in one.messages]
    steps = [step for one in group.trajectories for step in one.steps]
    texts = sum(len(step.observation) + len(step.action) for step in steps)
    return (
        13 * sum(len(message.tokens) for message in messages) + 4 * texts + RECORD_BYTES * (len(messages) + len(steps))
    )
