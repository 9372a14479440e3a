"""One episode while it plays, and the protocol of the runners that play it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ...envs.errors import EnvTimeout
from ...records import Group, Message, Screenshots, Status, Step, Trajectory
from ...store.writing.trajectory_writer import TrajectoryWriter
from .control import CONTINUES
from .player import Player
from .progress import Progress, Start
from .running_group import RunningMember
from .timeouts import Timeouts

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...envs.runner.step_result import StepResult


class StepTimeout(EnvTimeout):
    """A step exceeded its timeout, and the policy is charged with it (``timeouts.Fault``)."""


@dataclass(slots=True)
class Episode:
    """One attempt of a member: its parts and its progress. A runner plays its turns."""

    trajectory: Trajectory
    """The head of the record."""
    member: RunningMember
    """The controller's side: gets each turn and the end, and decides whether the episode continues."""
    env_thread: EnvThread
    player: Player
    timeouts: Timeouts
    record: TrajectoryWriter
    screenshots: Screenshots = "end"
    progress: Progress = field(default_factory=Progress)

    @property
    def group(self) -> Group:
        """Task and horizon."""
        return self.member.group.group

    async def enter(self, start: Start) -> StepResult:
        """Begin at a point of another episode: record its turns, and return the result to act on.

        Raises:
            EnvError: the environment failed.
        """
        self.progress, result = await start.enter(self.env_thread, self.player, self.timeouts.reset_s)
        self.progress.set_extra(CONTINUES, self.member.continues)
        self.record.append(self.progress.steps, self.progress.messages, self.progress.images)
        return result

    def add_turn(
        self, step: Step, messages: Sequence[Message], images: Mapping[str, bytes] | None = None, tokens: int = 0
    ) -> None:
        """Record a turn, and show it to the controller.

        Args:
            images: the images that the step names, by hash.
            tokens: tokens that were sampled in the turn.
        """
        images = images or {}
        self.record.append([step], messages, images)
        self.member.add_turn(step, messages)
        progress = self.progress
        if self.member.view.branchable:
            progress.steps.append(step)
            progress.messages.extend(messages)
            progress.images.update(images)
        progress.reward += step.reward
        progress.turns += 1
        progress.tokens += tokens
        progress.cut_turns += step.cut_by is not None


class EpisodeRunner(Protocol):
    """A way to play the turns of one episode. ``runners`` creates one per episode, and records the end."""

    async def run(self) -> Status:
        """Play the turns, and record each one (``Episode.add_turn``); return ``completed`` or ``truncated``.

        Raises:
            HorizonReached: a limit truncated the episode.
            EnvError, EngineFailed, PolicyFailed, TimeoutError: a part failed.
            CancelledError: the caller, or the controller, ended the episode.
        """
