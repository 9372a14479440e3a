"""The state of a group while it plays: what its members did so far, and what the controller decided about them.

One ``RunningGroup`` per group and worker. Each member's episode reports through its ``RunningMember``. Without a
controller both only keep the tasks of the members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from ...errors import TurnwiseError
from ...records import Group, Message, Outcome, Status, Step
from ...store.operations.trajectories import DROPPED
from .control import Branch, Close, Controller, Decision, Drop, GroupView, MemberView, Stop, TurnView, Weigh
from .player import Forkable, Player
from .progress import BranchPoint


@dataclass(slots=True, eq=False)
class RunningMember:
    """One member of a running group, over all of its attempts."""

    group: RunningGroup
    view: MemberView
    start: BranchPoint | None = None
    """Where the episode of a branch begins; None for a member that begins with a reset."""
    player: Player | None = None
    """The player of a branch; None for a member that begins with a reset."""
    task: asyncio.Task[Outcome] | None = None
    interruptible: bool = True
    """Whether a drop may cancel the task now; otherwise the task checks ``dropped`` afterwards."""
    weight: float = 1.0
    """Factor on the loss of the tokens of this attempt."""
    dropped: str = ""
    """The reason for which the controller dropped the member; empty if it did not."""
    cancellations: int = 0
    """Cancellations of the task that come from the controller."""
    _stop: Stop | None = None
    _children: int = 0

    def begin(self, attempt: int) -> None:
        """Begin an attempt, without the turns, the weight and the stop of the one before."""
        member, children = self.view.member, self.view.children
        self.view = MemberView(member, attempt, Status.RUNNING, 0.0, dropped=bool(self.dropped), children=children)
        self.weight, self._stop, self._children = 1.0, None, 0

    def set_branchable(self, branchable: bool) -> None:
        """Set whether this attempt may be branched."""
        if self.group.controlled:
            self.view = replace(self.view, branchable=branchable)

    def take_children(self) -> int:
        """Return how many members branch from this one after its current turn, and forget the number.

        Raises:
            TurnwiseError: the member cannot be branched.
        """
        count, self._children = self._children, 0
        if count and not self.view.branchable:
            raise TurnwiseError(
                f"`rollout_control` branches an episode of {self.group.group.task.env_id}, but the environment does not"
                " declare `restorable`, or the player cannot be forked; choose another `rollout_control`"
            )
        return count

    def forget_children(self, count: int) -> None:
        """Take back ``count`` children, because the state of the environment cannot be restored."""
        self.view = replace(self.view, children=self.view.children - count)

    def grow(self, children: int, point: BranchPoint, player: Player) -> None:
        """Add ``children`` members that continue from ``point``, each with a fork of ``player``, and start them."""
        assert isinstance(player, Forkable)  # noqa: S101
        for _ in range(children):
            self.group.add_child(self, point, player)

    def add_turn(self, step: Step, messages: Sequence[Message]) -> None:
        """Add a turn to the view of the controller."""
        if self.group.controlled:
            turn = TurnView(
                step.observation, step.action, step.reward, _logprobs(messages), step.state_key, step.action_valid
            )
            self.view = replace(self.view, turns=(*self.view.turns, turn), reward=self.view.reward + step.reward)

    def stop_reason(self) -> str:
        """Call the controller after a turn; return the reason to end the episode as truncated, empty to continue."""
        if self.group.controlled:
            self.group.decide(self)
        if self._stop is None:
            return ""
        self.weight = self._stop.weight
        return self._stop.reason

    def end(self, status: Status) -> None:
        """End an attempt and call the controller, unless the attempt was cancelled."""
        if self.group.controlled:
            self.view = replace(self.view, status=status)
            if status is not Status.CANCELLED:
                self.group.decide(self)

    def stop(self, decision: Stop) -> None:
        """End the episode after the current turn; the first decision counts."""
        self._stop = self._stop or decision

    def branch(self, children: int) -> None:
        """Add children after the current turn."""
        self._children += children
        self.view = replace(self.view, children=self.view.children + children)

    def drop(self, reason: str) -> None:
        """Cancel the member, unless it has a scored episode or was dropped before."""
        if self.dropped or self.view.scored:
            return
        self.dropped = f"{DROPPED}: {reason}"
        self.view = replace(self.view, dropped=True)
        if self.task is not None and self.interruptible and self.task is not asyncio.current_task():
            self.cancellations += 1
            self.task.cancel()

    def cancelled_from_outside(self) -> bool:
        """Whether somebody other than the controller cancelled the member's task."""
        return self.task is not None and self.task.cancelling() > self.cancellations


class RunningGroup:
    """The members of a group that plays in this worker, with their controller."""

    def __init__(
        self,
        group: Group,
        members: Sequence[tuple[int, int]],
        controller: Controller | None = None,
        finished: Sequence[Outcome] = (),
        start_child: Callable[[RunningMember, Forkable], asyncio.Task[Outcome]] | None = None,
        seed: int = 0,
    ) -> None:
        """``members`` are ``(member, attempt)`` pairs to play; ``finished`` has the outcomes of the other members.
        ``start_child`` starts the episode of a branch, with a fork of its parent's player. ``seed`` is the run's."""
        self.group = group
        self.controlled = controller is not None and not controller.passive
        self._controller = controller
        self._start_child = start_child
        # Named as the streams of the driver are: seed, slot and, in place of an index, the number of the group.
        number = group.id.rpartition(":")[2]
        self._stream = Random(f"{seed} rollout_control.{number}")  # noqa: S311 - reproducible, not secret
        self._finished = [MemberView(one.member, one.attempt, one.status, one.reward) for one in finished]
        self.members = {
            member: RunningMember(self, MemberView(member, attempt, Status.RUNNING, 0.0)) for member, attempt in members
        }

    def add_child(self, parent: RunningMember, point: BranchPoint, player: Forkable) -> None:
        """Add and start a member that continues the episode of ``parent`` from ``point`` with a fork of ``player``."""
        number = 1 + max(one.member for one in self._views())
        turns = len(parent.view.turns)
        view = replace(parent.view, member=number, parent=parent.view.member, branched_at=turns, children=0)
        self.members[number] = child = RunningMember(self, view, point)
        assert self._start_child is not None  # noqa: S101
        child.task = self._start_child(child, player)

    def _views(self) -> list[MemberView]:
        return [*self._finished, *(one.view for one in self.members.values())]

    def decide(self, latest: RunningMember) -> None:
        """Call the controller about the group, and apply its decisions."""
        view = GroupView(self.group, latest.view, tuple(sorted(self._views(), key=lambda one: one.member)))
        assert self._controller is not None  # noqa: S101
        for decision in self._controller.decide(view, self._stream):
            self._apply(decision)

    def _apply(self, decision: Decision) -> None:
        match decision:
            case Close(reason):
                for one in self.members.values():
                    one.drop(reason)
            case Drop(member, reason) if member in self.members:
                self.members[member].drop(reason)
            case Stop(member) if self._is_running(member):
                self.members[member].stop(decision)
            case Branch(member, children) if self._is_running(member):
                self.members[member].branch(children)
            case Weigh(member, weight) if self._is_running(member):
                self.members[member].weight = weight

    def _is_running(self, member: int) -> bool:
        return member in self.members and self.members[member].view.running


def _logprobs(messages: Sequence[Message]) -> tuple[float, ...]:
    pairs = (pair for message in messages for pair in zip(message.logprobs, message.mask, strict=True))
    return tuple(float(logprob) for logprob, sampled in pairs if sampled)
