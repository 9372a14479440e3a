"""Bring an environment to a step of a stored trajectory, by executing the actions before it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from math import fsum

from ...envs.runner.env_thread import EnvThread
from ...envs.runner.step_result import StepResult
from ...errors import TurnwiseError
from ..rollout.player import PastTurn
from ..rollout.progress import Progress
from .compare import compare
from .environments import CALL_TIMEOUT_S
from .replay import Stored, answered, not_executable, texts_of, upgrade_of


class BranchRefused(TurnwiseError):
    """No episode can begin at this step of the trajectory."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """An episode that stands before a step of a stored trajectory."""

    result: StepResult
    """The observation that the next turn acts on."""
    progress: Progress
    """The turns so far, as a record of their own: without tokens."""
    turns: list[PastTurn]
    """The turns so far, for the history of a player."""


def check_branch(stored: Stored, at: int) -> None:
    """Check that an episode can begin at step ``at``, without executing anything.

    Raises:
        BranchRefused: it cannot.
    """
    trajectory, steps = stored.trajectory, answered(stored.trajectory)
    name = f"trajectory {trajectory.id} cannot be branched"
    if why := not_executable(trajectory, stored.group.task.env_id):
        raise BranchRefused(f"{name}: {why}")
    ended = bool(steps) and (steps[-1].terminated or steps[-1].truncated)
    last = len(steps) - ended
    if not 1 <= at <= last:
        end = ", and the environment ended the episode at the last one" if ended else ""
        remedy = f"choose 1 to {last}" if last > 1 else "choose 1" if last else "choose another trajectory"
        raise BranchRefused(f"{name} at step {at}: {len(steps)} of its steps can be executed{end}; {remedy}")


async def reach(env_thread: EnvThread, stored: Stored, at: int) -> Prefix:
    """Reset an environment and execute the first ``at`` actions of a trajectory, and compare every result.

    Raises:
        BranchRefused: a result differs from the stored one.
        EnvError: the environment failed.
    """
    task, trajectory = stored.group.task, stored.trajectory
    result = await env_thread.reset(task.seed, task.split, CALL_TIMEOUT_S)
    progress = Progress(extras=dict(result.extras))
    turns: list[PastTurn] = []
    for step in trajectory.steps[:at]:
        texts = await texts_of(env_thread, step.observation, result, has_images=bool(step.images))
        before, result = result, await env_thread.step(step.action, CALL_TIMEOUT_S)
        verdict = compare(step, before, result, texts)
        if not verdict.matches:
            upgrade = upgrade_of(task, trajectory, env_thread)
            raise BranchRefused(
                f"trajectory {trajectory.id} cannot be branched at step {at}: its prefix is not reproduced; step "
                f"{verdict.index} differs: {verdict.differs}" + (f" ({upgrade})" if upgrade else "")
            )
        images = {hashlib.sha256(image).hexdigest(): image for image in before.images}
        progress.images.update(images)
        progress.steps.append(replace(step, message=None, images=tuple(images)))
        progress.extras.update(result.extras)
        turns.append(PastTurn(before.text, before.images, step.action if result.patch is None else result.patch))
    progress.turns, progress.reward = at, fsum(step.reward for step in progress.steps)
    progress.success = result.success
    progress.final_hash, progress.final_text, progress.final_images = result.hash, result.text, result.images
    return Prefix(result, progress, turns)
