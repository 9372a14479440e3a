"""What a rollout controller reads and decides: a frozen view of the running group, and decisions about its members.

``trainer.algorithms.rollout_control`` is the slot. The runner of the group calls ``Controller.decide``

* after each turn that did not end its episode, before the member's next turn;
* after the end of each episode, failed ones included, before the end is stored.

Members that the controller dropped or suspended cause no call, unless a suspended one ends with a reward. Calls never
overlap: the whole group plays in one event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import Protocol, TypeAlias

from ...records import SCORED_STATUSES, Group, Status

CONTINUES = "continues"
"""Key in a trajectory's ``extras``: the id of the suspended trajectory whose turns it repeats and continues."""
LOSS_WEIGHT = "loss_weight"
"""Key in a trajectory's ``extras``: the factor on the loss of its tokens; absent if it is 1."""


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of a member."""

    observation: str
    action: str
    reward: float
    logprobs: Sequence[float]
    """Behavior log-probability of each sampled token; empty for a policy without tokens."""
    state_key: str
    """The environment's name of the state in which the action was taken; empty if it reports none."""
    action_valid: bool


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member of the running group: its latest attempt so far."""

    member: int
    attempt: int
    status: Status
    """``running`` also while the member waits to begin. A failed member that is retried is running again."""
    reward: float
    """Sum of the rewards so far."""
    turns: Sequence[TurnView] = ()
    """Empty for a member that another worker, or an earlier stage, played to its end."""
    dropped: bool = False
    """Whether the controller dropped or suspended it."""
    parent: int | None = None
    """The member that this one is a branch of."""
    branched_at: int | None = None
    """The number of turns that it shares with its parent; ``turns`` begins with them unless it is empty."""
    children: int = 0
    """The members that branch from it, those included that begin after its current turn. Of the branches that another
    worker or an earlier stage began, only those count that ended with a reward."""
    branchable: bool = False
    """Whether it may be branched and suspended: its environment and its player restore snapshots."""

    @property
    def running(self) -> bool:
        """Whether it plays or waits to begin, and was not dropped or suspended."""
        return self.status is Status.RUNNING and not self.dropped

    @property
    def scored(self) -> bool:
        """Whether its episode ended with a reward."""
        return self.status in SCORED_STATUSES


@dataclass(frozen=True, slots=True)
class GroupView:
    """A running group, as it is at one call of the controller."""

    group: Group
    """Task, horizon and wanted size."""
    latest: MemberView
    """The member whose turn or end is the reason of the call."""
    members: Sequence[MemberView]
    """Every member, in the order of their numbers."""

    @property
    def scored(self) -> Sequence[MemberView]:
        """The members whose episodes ended with a reward."""
        return [one for one in self.members if one.scored]

    @property
    def running(self) -> Sequence[MemberView]:
        """The members that play or wait to begin."""
        return [one for one in self.members if one.running]


def _check_weight(weight: float) -> None:
    if not (isfinite(weight) and weight >= 0):
        raise ValueError(f"the weight of a member is {weight}: it must be a finite number of at least 0")


@dataclass(frozen=True, slots=True)
class Stop:
    """End the member's episode as truncated after its current turn. The member counts: its rewards stay in the group.

    ``weight`` is the factor on the loss of its tokens (``Weigh``).
    """

    member: int
    reason: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        _check_weight(self.weight)


@dataclass(frozen=True, slots=True)
class Weigh:
    """Set the factor on the loss of the member's tokens; the episode continues.

    The factor changes no denominator of the loss, which counts the tokens or sequences that are trained on. A member
    that was dropped, or has the factor 0, is not counted. Where a controller drops a member with probability ``q`` and
    gives a survivor the factor ``1 / (1 - q)``, the sum of the loss is unbiased, and its mean is larger by the ratio of
    the members before and after.
    """

    member: int
    weight: float

    def __post_init__(self) -> None:
        _check_weight(self.weight)


@dataclass(frozen=True, slots=True)
class Drop:
    """Cancel the member now and remove it from the group: neither trained on nor retried, and not a failure."""

    member: int
    reason: str


@dataclass(frozen=True, slots=True)
class Suspend:
    """Remove the member from the group after its current turn, as ``Drop`` does, and keep its episode.

    A member of a later group of the same task may continue the episode: it repeats the turns so far, which are trained
    on with their behavior log-probabilities and versions, and goes on.

    * A member that is not ``branchable`` ends the run with an error.
    * A member that did not begin, or a branch, is dropped: its turns are the parent's.
    * If the environment has no snapshot of its state after that turn, the episode is not kept.
    * If the current turn ends the episode, or is the last one of the horizon, the member counts like any other.
    """

    member: int
    reason: str


@dataclass(frozen=True, slots=True)
class Close:
    """Drop every member without a scored episode: the group is complete as it is."""

    reason: str
    suspend: bool = False
    """Suspend them instead."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Add ``children`` members to the group that continue the member's episode from the end of its current turn.

    A child has its own copy of the environment, restored from a snapshot, and of the conversation. It is not retried.
    A member that is not ``branchable`` ends the run with an error. If the environment has no snapshot of its state
    after that turn, no child begins, and ``MemberView.children`` does not count it.
    """

    member: int
    children: int

    def __post_init__(self) -> None:
        if self.children < 1:
            raise ValueError(f"a branch needs at least one child, not {self.children}")


Decision: TypeAlias = Stop | Weigh | Drop | Suspend | Close | Branch
"""A member that no decision names continues. A decision about a member that is not running has no effect."""


class Controller(Protocol):
    """The part of ``trainer.algorithms.rollout_control.base.RolloutController`` that the workers call."""

    @property
    def passive(self) -> bool:
        """Whether it never decides anything: the runner then builds no view."""

    def members(self, size: int) -> int:
        """Return how many members to open for a group of which ``size`` are wanted; at least ``size``."""

    def decide(self, view: GroupView, stream: Random) -> Sequence[Decision]:
        """Return the decisions about the running members; empty to continue with all of them."""
