"""The state of a group while it plays: the turns of its members, and the decisions of the controller about them.

One ``RunningGroup`` per group and worker. Each member's episode reports through its ``RunningMember``. Without a
controller both only keep the tasks of the members.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from ...errors import TurnwiseError
from ...records import Message, Outcome, Status, Step
from .assignment import Assignment
from .control import Branch, Close, Decision, Drop, GroupView, MemberView, Stop, Suspend, TurnView, Weigh
from .progress import BranchPoint, Start

LOG = logging.getLogger(__name__)

DROPPED = "dropped by the rollout controller"
"""The beginning of the error of a member that its group did not need."""


@dataclass(slots=True, eq=False)
class RunningMember:
    """One member of a running group, over all of its attempts."""

    group: RunningGroup
    view: MemberView
    start: Start | None = None
    """Where the episode of a branch begins, or of a member that continues a suspended one; None: with a reset."""
    suspended: BranchPoint | None = None
    """Where another episode may continue this one; None if the controller did not suspend it."""
    task: asyncio.Task[Outcome] | None = None
    interruptible: bool = True
    """Whether a drop may cancel the task now; otherwise the task checks ``dropped`` afterwards."""
    weight: float = 1.0
    """Factor on the loss of the tokens of this attempt."""
    dropped: str = ""
    """The reason for which the controller dropped or suspended the member; empty if it did not."""
    limit: asyncio.Timeout | None = None
    """The timeout of the group on this attempt; None before it begins."""
    cancellations: int = 0
    """Cancellations of the task that come from the controller."""
    _playing: bool = False
    """Whether an attempt has its environment and its player, and has not ended."""
    _stop: Stop | None = None
    _suspend: str = ""
    """The reason to suspend the member after its current turn; empty for none."""
    _children: int = 0

    @property
    def is_branch(self) -> bool:
        """Whether it branches from another member of its group, or from a stored trajectory."""
        return self.view.parent is not None or (self.start is not None and self.start.is_stored)

    @property
    def continues(self) -> str:
        """The id of the suspended trajectory that it continues; empty for none."""
        return self.start.parent if self.start and not self.is_branch else ""

    def begin(self, attempt: int) -> None:
        """Begin an attempt, without the weight and the stop of the one before. Its turns are those of its start."""
        member, children, dropped = self.view.member, self.view.children, bool(self.dropped)
        start = self.start if isinstance(self.start, BranchPoint) else None
        reward, turns = (start.progress.reward, start.turns) if start else (0.0, ())
        self.view = MemberView(member, attempt, Status.RUNNING, reward, turns, dropped, children=children)
        self.weight, self._stop, self._suspend, self._children = 1.0, None, "", 0

    def play(self, branchable: bool) -> None:
        """Begin to play the attempt; ``branchable`` is whether it may be branched and suspended."""
        self._playing = True
        if self.group.controlled:
            self.view = replace(self.view, branchable=branchable)

    async def after_turn(self, take_point: Callable[[], Awaitable[BranchPoint | None]]) -> str:
        """Call the controller after a turn, and do what it decided about this member.

        Args:
            take_point: returns the point after the turn; None if the environment has no snapshot of its state.

        Returns:
            The reason to end the episode as truncated; empty to continue.

        Raises:
            CancelledError: the member is dropped or suspended.
            TurnwiseError: the member cannot be branched or suspended.
        """
        if self.group.controlled and not self._suspend:
            self.group.decide(self)
        if self._stop is not None:
            self.weight = self._stop.weight
        if self.dropped:
            raise asyncio.CancelledError
        children, self._children = self._children, 0
        if children:
            self._check_branchable("branches")
            if (point := await take_point()) is None:
                self.view = replace(self.view, children=self.view.children - children)
            else:
                for _ in range(children):
                    self.group.add_child(self, point)
        if self._stop is not None:
            return self._stop.reason
        if self._suspend:
            self._check_branchable("suspends")
            self.suspended, self.dropped = await take_point(), f"{DROPPED}: {self._suspend}"
            raise asyncio.CancelledError
        return ""

    def _check_branchable(self, decides: str) -> None:
        if not self.view.branchable:
            raise TurnwiseError(
                f"`rollout_control` {decides} an episode of {self.group.group.task.env_id}, but the environment does"
                " not declare `restorable`, or the player cannot restore a snapshot; choose another `rollout_control`"
            )

    def add_turn(self, step: Step, messages: Sequence[Message]) -> None:
        """Add a turn to the view of the controller."""
        if self.group.controlled:
            turn = TurnView(
                step.observation, step.action, step.reward, _logprobs(messages), step.state_key, step.action_valid
            )
            self.view = replace(self.view, turns=(*self.view.turns, turn), reward=self.view.reward + step.reward)

    def end(self, status: Status) -> None:
        """End an attempt and call the controller, unless the attempt was cancelled."""
        self._playing = False
        if self.group.controlled:
            self.view = replace(self.view, status=status, dropped=bool(self.dropped))
            if self._suspend:
                self.drop(self._suspend)
            if status is not Status.CANCELLED and not self.dropped:
                self.group.decide(self)

    def stop(self, decision: Stop) -> None:
        """End the episode after the current turn; the first decision counts."""
        self._stop = self._stop or decision

    def branch(self, children: int) -> None:
        """Add children after the current turn."""
        self._children += children
        self.view = replace(self.view, children=self.view.children + children)

    def suspend(self, reason: str) -> None:
        """Drop the member after its current turn and keep its episode; drop it now if it does not play."""
        if self.view.scored or self.dropped or self._suspend:
            return
        if self._playing and not self.is_branch:
            self._suspend = reason
            self.view = replace(self.view, dropped=True)
            return
        if not self.is_branch and self.view.status is Status.RUNNING:
            self.suspended = self.start if isinstance(self.start, BranchPoint) else None
        self.drop(reason)

    def drop(self, reason: str) -> None:
        """Cancel the member, unless it has a scored episode or was dropped before."""
        if self.dropped or self.view.scored:
            return
        self.dropped = f"{DROPPED}: {reason}"
        self.view = replace(self.view, dropped=True)
        if self.task is not None and self.interruptible and self.task is not asyncio.current_task():
            self.cancellations += 1
            self.task.cancel()

    def is_late(self) -> bool:
        """Whether the timeout of the group cancelled the member, and the controller did not drop it."""
        return self.limit is not None and self.limit.expired() and not self.dropped

    def cancelled_from_outside(self) -> bool:
        """Whether somebody other than the controller cancelled the member's task."""
        return self.task is not None and self.task.cancelling() > self.cancellations


class RunningGroup:
    """The members of a group that plays in this worker, with their controller."""

    def __init__(self, assignment: Assignment, seed: int = 0) -> None:
        """``seed`` is the run's."""
        group, controller = assignment.group, assignment.controller
        self.group = group
        self.controlled = controller is not None and not controller.passive
        self._controller = controller
        self._play: Callable[[RunningMember], asyncio.Task[Outcome]] | None = None
        # Named as the streams of the driver are: seed, slot and, in place of an index, the number of the group.
        number = group.id.rpartition(":")[2]
        self._stream = Random(f"{seed} rollout_control.{number}")  # noqa: S311 - reproducible, not secret
        children = Counter(one.parent for one in assignment.finished)
        self._finished = [_finished(one, children[one.member]) for one in assignment.finished]
        self.members = {
            member: RunningMember(
                self,
                MemberView(member, attempt, Status.RUNNING, 0.0, children=children[member]),
                assignment.starts.get(member),
            )
            for member, attempt in assignment.members
        }

    def start(self, play: Callable[[RunningMember], asyncio.Task[Outcome]]) -> None:
        """Start the episodes of the members, and later those of their branches, as tasks that ``play`` creates."""
        self._play = play
        for member in self.members.values():
            member.task = play(member)

    def add_child(self, parent: RunningMember, point: BranchPoint) -> None:
        """Add and start a member that continues the episode of ``parent`` from ``point``."""
        number = 1 + max(one.member for one in self._views())
        turns = len(parent.view.turns)
        view = replace(
            parent.view, member=number, parent=parent.view.member, branched_at=turns, children=0, dropped=False
        )
        self.members[number] = child = RunningMember(self, view, point)
        assert self._play is not None  # noqa: S101
        child.task = self._play(child)

    def _views(self) -> list[MemberView]:
        return [*self._finished, *(member.view for member in self.members.values())]

    def decide(self, latest: RunningMember) -> None:
        """Call the controller about the group, and apply its decisions."""
        view = GroupView(self.group, latest.view, tuple(sorted(self._views(), key=lambda one: one.member)))
        assert self._controller is not None  # noqa: S101
        try:
            decisions = list(self._controller.decide(view, self._stream))
        except Exception as error:
            LOG.exception("`decide` of the rollout controller raised")
            raise TurnwiseError(
                f"`decide` of the rollout controller `{type(self._controller).__name__}` raised "
                f"{type(error).__name__}: {error}; `turnwise runs logs` has the traceback"
            ) from error
        for decision in decisions:
            self._apply(decision)

    def _apply(self, decision: Decision) -> None:
        match decision:
            case Close(reason, suspend):
                for one in self.members.values():
                    (one.suspend if suspend else one.drop)(reason)
            case Suspend(member, reason) if self._is_running(member):
                self.members[member].suspend(reason)
            case Drop(member, reason) if member in self.members:
                self.members[member].drop(reason)
            case Stop(member) if self._is_running(member):
                self.members[member].stop(decision)
            case Branch(member, children) if self._is_running(member):
                self.members[member].branch(children)
            case Weigh(member, weight) if self._is_running(member):
                self.members[member].weight = weight
            case Suspend() | Drop() | Stop() | Branch() | Weigh():
                return  # about a member that is not running
            case _:
                raise TurnwiseError(f"the rollout controller decided {decision!r}, which is not a decision")

    def _is_running(self, member: int) -> bool:
        return member in self.members and self.members[member].view.running


def _finished(one: Outcome, children: int) -> MemberView:
    """Return the view of a member that another worker, or an earlier stage, played to its end."""
    return MemberView(
        one.member,
        one.attempt,
        one.status,
        one.reward,
        parent=one.parent,
        branched_at=one.branched_at,
        children=children,
    )


def _logprobs(messages: Sequence[Message]) -> tuple[float, ...]:
    pairs = (pair for message in messages for pair in zip(message.logprobs, message.mask, strict=True))
    return tuple(float(logprob) for logprob, sampled in pairs if sampled)
