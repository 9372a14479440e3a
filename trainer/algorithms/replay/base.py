"""The base class of replay buffers, and the reader of the store that they select from."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar, Protocol

from pydantic import Field

from ....errors import TurnwiseError
from ....records import GroupState, GroupSummary, ScoredGroup, Source, Trajectory
from ..component import Component
from ..filters.groups.base import GroupFilter
from ..losses.base import PolicyLoss
from ..registry import component_name


class StoreReader(Protocol):
    """Blocking reads of the run's surviving history, and of demonstrations in the same store.

    The surviving history leaves out the trajectories that a version sampled which a resume abandoned.
    """

    def groups(
        self,
        *,
        limit: int,
        task: str | None = None,
        states: Collection[GroupState] = ...,
        min_update: int | None = None,
    ) -> list[GroupSummary]:
        """Return at most ``limit`` scored training groups of the run, newest first, without their trajectories.

        Args:
            task: only groups of the task with this id.
            states: only groups in these states; by default ready, filtered, leased, consumed and expired.
            min_update: only groups that this update or a later one consumed.
        """

    def successes(self, task: str, *, min_return: float, limit: int) -> list[str]:
        """Return the ids of the newest trajectories of a task that succeeded (``records.is_success``).

        Without a verdict of the environment, the shaped return must be at least ``min_return``. The groups of these
        trajectories may have any state that ``groups`` returns: trained on or not.
        """

    def demonstrations(
        self,
        *,
        limit: int,
        min_return: float = ...,
        run: str | None = None,
        environment: str | None = None,
        task: str | None = None,
    ) -> list[str]:
        """Return the ids of the newest trajectories of source ``expert`` that completed and succeeded
        (``records.is_success``), on tasks of the training split.

        Args:
            min_return: return of the environment from which an episode without a verdict is a success; by default
                ``SUCCESS_RETURN``.
            run: only trajectories of this run; by default, of any run in the store.
            environment: only trajectories of the environment with this id.
            task: only trajectories of the task with this id.
        """

    def load_demonstrations(self, trajectories: Sequence[str]) -> list[ScoredGroup]:
        """Return the groups of these trajectories with no other members, their turns as messages of source ``expert``.

        The actions are encoded by the tokenizer and the chat template of the run. Trajectories that are longer than the
        context are left out.
        """

    def load(self, groups: Sequence[str]) -> list[ScoredGroup]:
        """Return groups with tokens and shaped rewards, in the given order.

        Groups that a resume abandoned, and those of other runs, are left out.
        """

    def load_trajectories(self, trajectories: Sequence[str]) -> list[tuple[Trajectory, Sequence[float]]]:
        """Return trajectories with tokens, each with its shaped rewards per turn, in the given order.

        Trajectories that a resume abandoned, and those of other runs, are left out.
        """


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
    def mix(self, fresh: Sequence[ScoredGroup], reader: StoreReader, update: int, stream: Random) -> list[ScoredGroup]:
        """Return the groups of the batch: reused groups added to fresh ones or in place of them.

        Called once per batch in a worker thread, so a read of the store may block. A fresh group that is left out
        expires. A group may have a member of another group in place of one of its members.

        Args:
            fresh: the leased groups; each is trained on for the first time.
            reader: reads of the store.
            update: updates done so far.
            stream: the random stream of this slot.
        """

    def batch(
        self, fresh: Sequence[ScoredGroup], reader: StoreReader, update: int, stream: Random
    ) -> list[ScoredGroup]:
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
        replace(one, source=Source.REPLAY) if one.source == Source.POLICY and one.id not in members else one
        for one in scored.group.trajectories
    )
    return replace(scored, group=replace(scored.group, trajectories=marked))
