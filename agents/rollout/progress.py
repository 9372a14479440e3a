"""The progress of one episode, and the point at which another episode continues it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...records import Message, Outcome, Status, Step, Trajectory
from .control import TurnView

if TYPE_CHECKING:
    from ...envs.runner.step_result import StepResult


@dataclass(slots=True)
class Progress:
    """The state that an episode has reached."""

    status: Status = Status.RUNNING
    error: str = ""
    reward: float = 0.0
    success: bool | None = None
    turns: int = 0
    tokens: int = 0
    final_hash: str = ""
    final_text: str | None = None
    final_images: Sequence[bytes] = ()
    """The images of the last observation, as PNG."""
    extras: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """The steps and messages so far, and their images; kept only if the episode may be branched or suspended."""
    messages: list[Message] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)

    def outcome(self, trajectory: Trajectory) -> Outcome:
        """Return the outcome of an episode that ended as it is now; ``trajectory`` is the head of its record."""
        of = trajectory
        ended = (self.status, self.reward, self.success, self.turns, self.tokens, self.error)
        return Outcome(of.id, of.member, of.attempt, *ended)

    def fork(self) -> Progress:
        """Return an independent copy."""
        extras, images = dict(self.extras), dict(self.images)
        return replace(self, extras=extras, steps=[*self.steps], messages=[*self.messages], images=images)


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """An episode between two turns: all that another episode needs to continue it, in any process."""

    parent: str
    """Id of the trajectory."""
    snapshot: Any
    """The state of the environment; None if the environment that continues is in that state already."""
    player: Any
    """The state of the player."""
    result: StepResult
    """The last result of the environment: the observation that the next turn acts on."""
    progress: Progress
    """A copy; ``progress.turns`` is the index of the next turn."""
    turns: Sequence[TurnView]
    """The turns so far, for the controller."""
