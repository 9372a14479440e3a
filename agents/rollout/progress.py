"""The progress of one episode, and the point at which another episode continues it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ...records import Limit, Message, Outcome, Status, Step, Trajectory
from .control import TurnView
from .player import Player, Restorable

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...envs.runner.step_result import StepResult

TARGETS = "targets"
"""Key in a trajectory's ``extras``: by turn, the places of the screen that its action points at."""

IMAGE_SIZES = "image_sizes"
"""Key in a trajectory's ``extras``: by ``WIDTHxHEIGHT`` of the images that the policy saw, the width and the height in
pixels that its image processor gave them. If it cut a part out, its left, top, width and height in pixels of the image
follow."""


@dataclass(slots=True)
class Progress:
    """The state that an episode has reached."""

    status: Status = Status.RUNNING
    error: str = ""
    reward: float = 0.0
    success: bool | None = None
    turns: int = 0
    tokens: int = 0
    reached: Limit | None = None
    cut_turns: int = 0
    last: StepResult | None = None
    """The result of the last turn; None before the end of the first."""
    extras: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    """The steps and messages so far, and their images; kept only if the episode may be branched or suspended."""
    messages: list[Message] = field(default_factory=list)
    images: dict[str, bytes] = field(default_factory=dict)

    def outcome(self, trajectory: Trajectory) -> Outcome:
        """Return the outcome of an episode that ended as it is now; ``trajectory`` is the head of its record."""
        of = trajectory
        ended = (self.status, self.reward, self.success, self.turns, self.tokens, self.error, self.reached)
        return Outcome(of.id, of.member, of.attempt, *ended, self.cut_turns)

    def add_extras(self, result: StepResult, turn: int) -> None:
        """Merge the extras of a turn's result, and keep the places that its action points at."""
        self.extras.update(result.extras)
        if result.targets:
            self.extras[TARGETS] = {**self.extras.get(TARGETS, {}), str(turn): result.targets}

    def add_image_sizes(self, sizes: Mapping[str, tuple[int, ...]]) -> None:
        """Keep the sizes that the image processor gave the images of the episode."""
        if sizes:
            self.extras[IMAGE_SIZES] = {**self.extras.get(IMAGE_SIZES, {}), **{one: [*sizes[one]] for one in sizes}}

    def set_extra(self, key: str, value: object, absent: object = "") -> None:
        """Set a key of ``extras``, or remove it if ``value`` is ``absent``: a start may hold another episode's."""
        self.extras.pop(key, None)
        if value != absent:
            self.extras[key] = value

    def fork(self) -> Progress:
        """Return an independent copy."""
        extras, images = dict(self.extras), dict(self.images)
        return replace(self, extras=extras, steps=[*self.steps], messages=[*self.messages], images=images)


class Start(Protocol):
    """The point between two turns at which an episode begins that continues another one, in any process."""

    is_stored: ClassVar[bool]
    """Whether the trajectory is that of another run: its turns are executed again, and the episode is a branch."""

    @property
    def parent(self) -> str:
        """Id of the trajectory that it continues."""

    @property
    def at(self) -> int:
        """The index of the next turn."""

    async def enter(self, env_thread: EnvThread, player: Player, timeout_s: float) -> tuple[Progress, StepResult]:
        """Bring the environment and the player there; return the progress so far, and the result to act on.

        Raises:
            EnvError: the environment failed.
        """


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """The point after a turn of an episode of this run, as snapshots."""

    is_stored: ClassVar[bool] = False
    parent: str
    snapshot: Any
    """The state of the environment."""
    player: Any
    """The state of the player."""
    result: StepResult
    """The last result of the environment: the observation that the next turn acts on."""
    progress: Progress
    """A copy; ``progress.turns`` is the index of the next turn."""
    turns: Sequence[TurnView]
    """The turns so far, for the controller."""

    @property
    def at(self) -> int:
        """The index of the next turn."""
        return self.progress.turns

    async def enter(self, env_thread: EnvThread, player: Player, timeout_s: float) -> tuple[Progress, StepResult]:
        """Restore both snapshots."""
        assert isinstance(player, Restorable)  # noqa: S101
        player.restore(self.player)
        await env_thread.restore(self.snapshot, timeout_s)
        return self.progress.fork(), self.result
