"""Stored episodes of experts as tasks of ``turnwise/SemiOnline-v0``."""

from collections.abc import Iterator
from typing import Any

from ..envs.errors import UnknownEnvironment
from ..envs.runner.observations import instructions
from ..envs.runner.once import call_once
from ..envs.semi_online import Expert
from ..envs.tasks import env_key
from ..errors import TurnwiseError
from ..process.user_code import NotAdmitted
from ..records import SUCCESS_RETURN, Source, Status, Task, is_success
from ..store import queries
from ..store.database import Database
from .reexecution.stored import Stored, load

PAGE = 500


def experts_of(
    database: Database, run: str | None = None, env_id: str | None = None, min_return: float = SUCCESS_RETURN
) -> Iterator[Expert]:
    """Yield the successful episodes of experts in the store, by age.

    Args:
        min_return: return from which a completed episode without a verdict of its environment is a success.
        run: only episodes of this run.
        env_id: only episodes of this environment.

    Raises:
        NotFound: the run is not in the store.
        StepCorrupt: stored content was altered.
        Pruned: retention removed the content of an episode.
        TurnwiseError: an observation contains images.
    """
    prompts: dict[str, str] = {}
    for name in _successes(database, run, env_id, min_return):
        stored = load(database, name)
        key = env_key(stored.group.task)
        if key not in prompts:
            prompts[key] = _instructions(stored.group.task)
        yield _expert(stored, prompts[key])


def _successes(database: Database, run: str | None, env_id: str | None, min_return: float) -> Iterator[str]:
    filters: dict[str, Any] = {
        "run": run,
        "env": env_id,
        "source": Source.EXPERT.value,
        "status": Status.COMPLETED.value,
    }
    last: str | None = None
    if run is not None:
        with database.read() as conn:
            queries.find_run(conn, run)
    while True:
        with database.read() as conn:
            rows = queries.list_trajectories(conn, descending=False, limit=PAGE, after=last, **filters)
        won = [row for row in rows if is_success(row.success, Status.COMPLETED, row.reward, min_return)]
        yield from (row.id for row in won if row.n_steps)
        if len(rows) < PAGE:
            return
        last = rows[-1].id


def _instructions(task: Task) -> str:
    """Return the system prompt of a task's environment; empty if no installed package has it."""
    try:
        return call_once(task.env_id, task.options, "instructions", instructions)
    except UnknownEnvironment as error:
        if isinstance(error.__cause__, NotAdmitted):
            raise
        return ""


def _expert(stored: Stored, prompt: str) -> Expert:
    trajectory, task = stored.trajectory, stored.group.task
    if any(step.images for step in trajectory.steps):
        raise TurnwiseError(
            f"trajectory {trajectory.id} has observations with images, which `turnwise/SemiOnline-v0` does not show; "
            "choose experts of an environment of text"
        )
    return Expert(
        id=trajectory.id,
        split="test" if task.split == "test" else "train",
        instructions=prompt,
        observations=(*(step.observation for step in trajectory.steps), stored.last or ""),
        actions=tuple(step.action for step in trajectory.steps),
    )
