"""The base class of replay buffers, which select from the surviving history of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ....errors import TurnwiseError
from ....records import ScoredGroup, Source
from ..component import Component
from ..group_filters.base import GroupFilter
from ..losses.base import PolicyLoss
from ..registry import component_name

if TYPE_CHECKING:
    from ....store.queries import RunReader


class ReplayBuffer(Component, ABC):
    """Decides which groups of a batch are fresh and which are reused."""

    slot: ClassVar[str] = "replay_buffer"
    default: ClassVar[str] = "none"
    passive: ClassVar[bool] = False
    """Whether ``mix`` returns the fresh groups only; it is not called then."""
    sources: ClassVar[Collection[Source]] = frozenset({Source.REPLAY})
    """The sources of the tokens that this buffer adds to a batch. The loss must accept them."""

    max_staleness: int = Field(8, ge=0)
    """Staleness bound of replayed tokens, in updates; ``rollout.max_staleness`` bounds fresh ones."""

    @abstractmethod
    def mix(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the groups of the batch: reused groups added to fresh ones or in place of them.

        Called once per batch in a worker thread, so a read of the store may block. A fresh group that is left out
        expires. A group may have a member of another group in place of one of its members.

        Args:
            fresh: the leased groups; each is trained on for the first time.
            reader: reads of the store.
            update: updates done so far.
            stream: the random stream of this slot.
        """

    def batch(self, fresh: Sequence[ScoredGroup], reader: RunReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the groups of the batch, in which every reused trajectory of a policy has the source ``replay``.

        Raises:
            TurnwiseError: ``mix`` returned a group twice.
        """
        if self.passive:
            return list(fresh)
        with self.calling("mix"):
            mixed = list(self.mix(fresh, reader, update, stream))
        name, count = Counter(one.group.id for one in mixed).most_common(1)[0] if mixed else ("", 0)
        if count > 1:
            raise TurnwiseError(
                f"the replay buffer `{component_name(type(self))}` returned group {name} {count} times; each group of "
                "a batch must be another one"
            )
        members = {one.group.id: {member.id for member in one.group.trajectories} for one in fresh}
        return [_marked(one, members) for one in mixed]

    def conflict(self, loss: PolicyLoss, group_filters: Sequence[GroupFilter]) -> str:
        """Return the reason why this buffer cannot work with a loss or the group filters; empty if it can."""
        added = set() if self.passive else set(self.sources)
        loss_name, name = component_name(type(loss)), component_name(type(self))
        if refused := sorted(added - set(loss.accepts)):
            return (
                f"the loss `{loss_name}` does not train on tokens of the source `{refused[0]}`, which the "
                f"replay buffer `{name}` adds: choose another `loss`, or add it to its `accepts`"
            )
        if missing := sorted(set(loss.requires) - added):
            return (
                f"the loss `{loss_name}` requires tokens of the source `{missing[0]}`, which the replay buffer "
                f"`{name}` does not add: set `replay_buffer.name` to a buffer that does (`demonstrations` adds those "
                "of experts)"
            )
        return ""


def _marked(scored: ScoredGroup, fresh: Mapping[str, Collection[str]]) -> ScoredGroup:
    """Set the source of every trajectory of a policy that is not a member of the fresh group of that name."""
    members = fresh.get(scored.group.id, ())
    marked = tuple(
        replace(trajectory, source=Source.REPLAY)
        if trajectory.source == Source.POLICY and trajectory.id not in members
        else trajectory
        for trajectory in scored.group.trajectories
    )
    return replace(scored, group=replace(scored.group, trajectories=marked))
