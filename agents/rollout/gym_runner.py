"""The runner that drives the environment: observe, act, step, record, until the environment or a limit ends the
episode, or a part fails.

Every wait has a timeout. Malformed actions are handled by the environment, not here.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from ...envs.errors import EnvError, EnvTimeout, ScoringTimeout
from ...errors import TurnwiseError
from ...records import Limit, Message, Status, Step
from ..errors import EngineFailed, HorizonReached, PolicyFailed
from .episode import Episode, StepTimeout
from .player import Patchable, PlayerTurn, Restorable
from .progress import BranchPoint
from .screenshots import take_screenshot
from .timeouts import Fault

if TYPE_CHECKING:
    from ...envs.runner.step_result import StepResult

PLAYER_GRACE_S = 1.0
"""Seconds added to the turn's timeout before a player is cancelled. A player bounds its own wait by that timeout, and
its error names the part that did not answer."""

SNAPSHOT_S = 30.0
"""Least timeout of a snapshot, in seconds. An environment bounds its own wait by less, and then has no snapshot. The
timeout of a step may be shorter: a snapshot that takes longer than a step is not a failure."""


class GymRunner:
    """Steps the environment with the actions of the player."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._member = episode.member
        self._timeouts = episode.timeouts
        self._fault = self._new_fault()

    async def run(self) -> Status:
        """Play the episode from its reset, or from the point at which it continues another one."""
        episode, horizon = self._episode, self._episode.group.horizon
        result = await self._begin()
        progress = episode.progress
        self._fault = self._new_fault()
        while progress.turns < horizon.max_turns:
            episode.record.check()
            await episode.record.wait_for_room()
            result = await self._turn(result)
            if result.terminated or result.truncated:
                return Status.COMPLETED if result.terminated else Status.TRUNCATED
            if progress.turns == horizon.max_turns:
                break  # the controller is called about the end of the episode; a branch would have no turn left
            if reason := await self._member.after_turn(partial(self._branch_point, result)):
                raise HorizonReached(reason)
        raise HorizonReached(f"{horizon.max_turns} turns played", Limit.TURNS)

    async def _begin(self) -> StepResult:
        """Return the result that the first turn acts on."""
        episode, task = self._episode, self._episode.group.task
        if self._member.start is not None:
            return await episode.enter(self._member.start)
        result = await episode.env_thread.reset(task.seed, task.split, self._timeouts.reset_s)
        episode.progress.extras.update(result.extras)
        return result

    async def _turn(self, before: StepResult) -> StepResult:
        """Let the player act on a result, apply the action, record both, and return the next result."""
        episode, progress = self._episode, self._episode.progress
        screenshot = await self._screenshot(before)
        started = perf_counter()
        with self._charged(PolicyFailed, "it waited for the policy's answer"):
            async with asyncio.timeout(self._timeouts.turn_s + PLAYER_GRACE_S):
                played = await episode.player.act(before.text, before.images)
        model_ms = 1000 * (perf_counter() - started)
        progress.add_image_sizes(played.image_sizes)
        images, messages = images_by_hash(before), list(played.messages)
        kept = {} if screenshot is None else {hashlib.sha256(screenshot).hexdigest(): screenshot}
        try:
            with self._charged(StepTimeout, "the environment applied an action"), self._fault.step():
                result = await episode.env_thread.step(played.text, self._timeouts.step_s, self._timeouts.scoring_s)
        except EnvError as error:
            failed = _step(progress.turns, before, played, messages, images, kept, model_ms)
            episode.record.append([failed], messages, images | kept)
            is_scoring = isinstance(error, ScoringTimeout)
            if isinstance(error, EnvTimeout) and self._fault.is_policys_step(is_scoring):
                raise StepTimeout(str(error)) from error
            raise
        if result.patch is not None and isinstance(episode.player, Patchable):
            messages += episode.player.patch(result.patch)
        step = _step(progress.turns, before, played, messages, images, kept, model_ms, result)
        episode.add_turn(step, messages, images | kept, played.tokens)
        progress.success, progress.last = result.success, result
        progress.add_extras(result, step.index)
        return result

    def _new_fault(self) -> Fault:
        return Fault(self._timeouts.group_s, self._episode.env_thread.charges_steps)

    async def _screenshot(self, seen: StepResult) -> bytes | None:
        """Return the screenshot of an observation, if the run keeps those of all."""
        if self._episode.screenshots != "all":
            return None
        extras = self._episode.progress.extras
        return await take_screenshot(self._episode.env_thread, seen, self._timeouts.step_s, extras, ended=False)

    async def _branch_point(self, result: StepResult) -> BranchPoint | None:
        """Return the point after the current turn; None if the environment has no snapshot of its state."""
        episode, player = self._episode, self._episode.player
        assert isinstance(player, Restorable)  # noqa: S101
        snapshot = await episode.env_thread.snapshot(max(self._timeouts.step_s, SNAPSHOT_S))
        if snapshot is None:
            return None
        turns = self._member.view.turns
        return BranchPoint(episode.trajectory.id, snapshot, player.snapshot(), result, episode.progress.fork(), turns)

    @contextmanager
    def _charged(self, error: type[TurnwiseError], action: str) -> Iterator[None]:
        """Raise ``error`` if the group's timeout expires inside, and ``Fault`` charges the policy with it.

        The policy is not charged if its engine or server does not respond. Otherwise the cancellation remains.

        Raises:
            EngineFailed: the cause of the cancellation.
        """
        try:
            yield
        except (asyncio.CancelledError, TimeoutError) as ended:
            late = self._member.is_late()
            if (late or isinstance(ended, TimeoutError)) and (failure := _engine_failure(ended)):
                raise failure from None
            charged = error is PolicyFailed or self._fault.is_policys_step(self._episode.env_thread.is_scoring)
            if not (late and charged and self._fault.is_policys_group()):
                raise
            raise error(f"its group's timeout of {self._timeouts.group_s:g} s expired while {action}") from None


def images_by_hash(result: StepResult) -> dict[str, bytes]:
    """Return the images of an observation by their SHA-256 in hex."""
    return {hashlib.sha256(image).hexdigest(): image for image in result.images}


def _step(
    index: int,
    before: StepResult,
    played: PlayerTurn,
    messages: Sequence[Message],
    images: Mapping[str, bytes],
    kept: Mapping[str, bytes],
    model_ms: float,
    after: StepResult | None = None,
) -> Step:
    """Return the record of a turn; ``after`` is None if the environment failed on the action."""
    return Step(
        index=index,
        observation=before.text,
        observation_hash=before.hash,
        action=played.text,
        reward=after.reward if after else 0.0,
        reward_parts=after.reward_parts if after else {},
        terminated=after is not None and after.terminated,
        truncated=after is not None and after.truncated,
        action_valid=after is not None and after.action_valid,
        state_key=before.state_key,
        message=messages[-1].index if messages else None,
        model_ms=model_ms,
        env_ms=after.ms if after else 0.0,
        images=tuple(images),
        screenshot=next(iter(kept), ""),
        cut_by=played.cut_by,
        created_at=datetime.now(UTC) if after else None,
        failed=after is None,
    )


def _engine_failure(error: BaseException | None) -> EngineFailed | None:
    """Return the failure of the engine among the causes of a wait that was ended; None if the engine responds."""
    while error is not None and not isinstance(error, EngineFailed):
        error = error.__cause__
    return error
