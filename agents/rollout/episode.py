"""The episode loop: observe, act, step, record; until the environment ends it, a horizon runs out, or something fails.

Every wait has a deadline. A failure of the world, of the engine or of the clock ends the episode with a status that
is never a reward; what the agent wrote, however wrong, is the environment's to answer. Each turn is submitted
to the store before the next one begins, and the ending is awaited until it is durable: once begun it is committed,
whatever deadline comes meanwhile. A turn that the store lost is no status of the episode: it ends the run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from ...envs.errors import EnvError, EnvTimeout
from ...records import Horizon, Message, Outcome, Status, Step, Task, Trajectory
from ...store.trajectory_writer import TrajectoryWriter
from ..errors import CannotSee, EngineFailed, HorizonReached

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ...store.client import StoreClient

GRACE_S = 1.0
"""Seconds beyond the turn's deadline before a player that does not end by itself is cancelled. A player bounds its own
wait by that deadline, and its error names the part that did not answer."""

ENV_PACKAGE = "env_package"
"""The fact of a trajectory that names the package that provided its environment, with its version."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a player says in one turn. A player without tokens has no messages."""

    text: str
    messages: Sequence[Message] = ()
    tokens: int = 0


class Player(Protocol):
    """Whoever acts in one episode."""

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """Answer an observation.

        Raises:
            HorizonReached: no tokens are left for an answer.
            EngineFailed: the engine gave none.
        """

    def close(self) -> None:
        """The episode is over."""


class Controller(Protocol):
    """See ``trainer.algorithms.rollout_control.base``."""

    def stop(self, trajectory: str, turn: int, reward: float) -> str:
        """A reason to end here; empty to play on."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds each wait may take."""

    reset: float = 60.0
    step: float = 30.0
    turn: float = 60.0
    group: float = 600.0
    """For each member of a group, retries included; the wait for an environment's slot does not count."""


@dataclass(slots=True)
class _Progress:
    status: Status = Status.RUNNING
    error: str = ""
    reward: float = 0.0
    success: bool | None = None
    turns: int = 0
    tokens: int = 0
    final_hash: str = ""
    final_text: str = ""
    extras: dict[str, Any] = field(default_factory=dict)


async def play(
    owner: EnvThread,
    player: Player,
    task: Task,
    horizon: Horizon,
    trajectory: Trajectory,
    client: StoreClient,
    deadlines: Deadlines,
    controller: Controller,
) -> Outcome:
    """Play one episode and record it under ``trajectory.id``.

    Cancelled, it is recorded as it then stands and its outcome returned; what cancelled it is still to be seen in
    ``asyncio.current_task().cancelling()``.

    Raises:
        TurnwiseError: the store lost a part of it, or the policy cannot play this environment at all. Every failure
            of the episode itself is a status instead.
    """
    record = TrajectoryWriter(client, trajectory)
    record.start()
    now = _Progress()
    hopeless: CannotSee | None = None
    try:
        await _turns(owner, player, task, horizon, trajectory.id, record, deadlines, controller, now)
    except HorizonReached as error:
        now.status, now.error = Status.TRUNCATED, str(error)
    except EnvTimeout as error:
        now.status, now.error = Status.TIMEOUT, str(error)
    except EnvError as error:
        now.status, now.error = Status.ENV_ERROR, str(error)
    except (EngineFailed, TimeoutError) as error:
        now.status, now.error = Status.POLICY_ERROR, str(error) or f"no answer within {deadlines.turn:g} s"
    except CannotSee as error:
        now.status, now.error, hopeless = Status.POLICY_ERROR, f"{task.env_id}: {error}", error
    except asyncio.CancelledError:
        now.status, now.error = Status.CANCELLED, "cancelled while it was running"
    if owner.package:
        now.extras[ENV_PACKAGE] = owner.package
    await to_the_end(_finish(record, now))
    if hopeless is not None:
        raise CannotSee(now.error) from hopeless
    return Outcome(
        trajectory.id,
        trajectory.member,
        trajectory.attempt,
        now.status,
        now.reward,
        now.success,
        now.turns,
        now.tokens,
        now.error,
    )


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that must not be left half done, cancelled or not. It is bound by deadlines of its own; a
    cancellation that came meanwhile is not raised, but still counted by ``asyncio.current_task().cancelling()``.
    """
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
    task.result()


async def _finish(record: TrajectoryWriter, now: _Progress) -> None:
    await record.finish(
        now.status,
        reward=now.reward,
        success=now.success,
        error=now.error,
        final_observation_hash=now.final_hash,
        final_observation=now.final_text,
        extras=now.extras,
    )


async def _turns(
    owner: EnvThread,
    player: Player,
    task: Task,
    horizon: Horizon,
    trajectory: str,
    record: TrajectoryWriter,
    deadlines: Deadlines,
    controller: Controller,
    now: _Progress,
) -> None:
    seen = await owner.reset(task.seed, task.split, deadlines.reset)
    now.extras.update(seen.extras)
    for turn in range(horizon.max_turns):
        record.check()
        started = perf_counter()
        async with asyncio.timeout(deadlines.turn + GRACE_S):
            answer = await player.act(seen.text, seen.images)
        model_ms = 1000 * (perf_counter() - started)
        before = seen
        try:
            seen = await owner.step(answer.text, deadlines.step)
        except EnvError:
            record.append([], answer.messages)
            raise
        images = {hashlib.sha256(image).hexdigest(): image for image in before.images}
        step = Step(
            index=turn,
            observation=before.text,
            observation_hash=before.hash,
            action=answer.text,
            reward=seen.reward,
            reward_parts=seen.reward_parts,
            terminated=seen.terminated,
            truncated=seen.truncated,
            action_valid=seen.action_valid,
            state_key=before.state_key,
            message=answer.messages[-1].index if answer.messages else None,
            model_ms=model_ms,
            env_ms=seen.ms,
            images=tuple(images),
            created_at=datetime.now(UTC),
        )
        record.append([step], answer.messages, images)
        now.reward += seen.reward
        now.turns += 1
        now.tokens += answer.tokens
        now.success = seen.success
        now.final_hash, now.final_text = seen.hash, seen.text
        now.extras.update(seen.extras)
        if seen.terminated or seen.truncated:
            now.status = Status.COMPLETED if seen.terminated else Status.TRUNCATED
            return
        if reason := controller.stop(trajectory, turn, seen.reward):
            raise HorizonReached(reason)
    raise HorizonReached(f"{horizon.max_turns} turns played")
