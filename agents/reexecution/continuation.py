"""Continue a stored trajectory from one of its steps: an environment is brought there, and another player plays on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import ClassVar

from ...envs.errors import EnvError
from ...envs.runner.env_thread import EnvThread
from ...envs.runner.step_result import StepResult
from ..rollout.gym_runner import images_by_hash
from ..rollout.player import Continuing, PastTurn, Player
from ..rollout.progress import Progress
from .compare import CALL_TIMEOUT_S, compare, texts_of
from .stored import Stored, answered, not_executable, upgrade_of


class BranchRefused(EnvError):
    """No episode can begin at this step of the trajectory. An episode that finds it out ends as ``env_error``."""


@dataclass(frozen=True, slots=True)
class StoredStart:
    """A step of a stored trajectory, at which new episodes begin: the turns before are executed again and compared.

    The record of an episode repeats these turns; their tokens are those that the new player reads.
    """

    is_stored: ClassVar[bool] = True
    stored: Stored
    at: int

    @property
    def parent(self) -> str:
        """Id of the stored trajectory."""
        return self.stored.trajectory.id

    async def enter(self, env_thread: EnvThread, player: Player, timeout_s: float) -> tuple[Progress, StepResult]:
        """Execute the turns before the step, and show them to the player; return them, and the result to act on.

        Raises:
            BranchRefused: a result differs from the stored one.
            EnvError: the environment failed.
        """
        progress, result, turns = await self._execute(env_thread, timeout_s)
        if isinstance(player, Continuing):
            for place, messages in enumerate(player.remember(turns)):
                if messages:
                    progress.messages.extend(messages)
                    progress.steps[place] = replace(progress.steps[place], message=messages[-1].index)
        return progress, result

    async def check(self) -> None:
        """Check that the turns before the step are reproduced, in an environment for this call. Raises as ``enter``."""
        task = self.stored.group.task
        env_thread = EnvThread(task.env_id, task.options)
        try:
            await env_thread.make(CALL_TIMEOUT_S)
            await self._execute(env_thread, CALL_TIMEOUT_S)
        finally:
            await env_thread.close(CALL_TIMEOUT_S)

    async def _execute(
        self, env_thread: EnvThread, timeout_s: float
    ) -> tuple[Progress, StepResult, Sequence[PastTurn]]:
        task, trajectory = self.stored.group.task, self.stored.trajectory
        result = await env_thread.reset(task.seed, task.split, timeout_s)
        progress = Progress(extras=dict(result.extras))
        turns: list[PastTurn] = []
        for step in trajectory.steps[: self.at]:
            texts = await texts_of(env_thread, step.observation, result, has_images=bool(step.images))
            before, result = result, await env_thread.step(step.action, timeout_s)
            verdict = compare(step, before, result, texts)
            if not verdict.matches:
                upgrade = upgrade_of(task, trajectory, env_thread)
                raise BranchRefused(
                    f"trajectory {trajectory.id} cannot be branched at step {self.at}: its prefix is not reproduced; "
                    f"step {verdict.index} differs: {verdict.differs}" + (f" ({upgrade})" if upgrade else "")
                )
            images = images_by_hash(before)
            progress.images.update(images)
            progress.steps.append(replace(step, message=None, images=tuple(images), screenshot=""))
            progress.add_extras(result, step.index)
            turns.append(PastTurn(before.text, before.images, step.action if result.patch is None else result.patch))
        progress.turns, progress.reward = self.at, fsum(step.reward for step in progress.steps)
        progress.success, progress.last = result.success, result
        return progress, result, turns


def continue_from(stored: Stored, at: int) -> StoredStart:
    """Return step ``at`` of a stored trajectory as the start of new episodes. Nothing is executed.

    Raises:
        BranchRefused: no episode can begin there.
    """
    trajectory, steps = stored.trajectory, answered(stored.trajectory)
    name = f"trajectory {trajectory.id} cannot be branched"
    if why := not_executable(trajectory, stored.group.task.env_id, len(answered(trajectory))):
        raise BranchRefused(f"{name}: {why}")
    ended = bool(steps) and (steps[-1].terminated or steps[-1].truncated)
    last = len(steps) - ended
    if not 1 <= at <= last:
        end = ", and the environment ended the episode at the last one" if ended else ""
        remedy = f"choose 1 to {last}" if last > 1 else "choose 1" if last else "choose another trajectory"
        raise BranchRefused(f"{name} at step {at}: {len(steps)} of its steps can be executed{end}; {remedy}")
    return StoredStart(stored, at)
