"""Whether an episode can be executed again, and its turns, next to which the verification appears."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....agents.reexecution.stored import answered, missing_environment, not_executable
from ....envs.errors import UnknownEnvironment
from ....envs.sandboxes import any_sandboxed
from ....records import Task
from ....store import queries
from ....store.database import Database
from ..given import Given
from .text import Cut

ACTION_CHARS = 400


@dataclass(frozen=True, slots=True)
class ReplayTurn:
    """A turn to execute."""

    index: int
    action: Cut


@dataclass(frozen=True, slots=True)
class ReplayPage:
    """The re-execution of an episode."""

    trajectory: str
    run: str
    group: str
    member: int
    task: Task
    problem: str
    """Why the episode cannot be executed again; empty if it can."""
    deterministic: bool
    needs_sandbox: bool
    turns: Sequence[ReplayTurn]
    failed_turns: int
    """Turns on which the environment failed: they are not executed."""


def load_replay(database: Database, given: Given) -> ReplayPage:
    """Return the turns of an episode that can be executed again. Nothing is executed."""
    name = given.path["trajectory"]
    found = queries.load_trajectory(database, name)
    with database.read() as conn:
        task = queries.group_of(conn, name).task
    problem, needs_sandbox = not_executable(found, task.env_id), False
    try:
        needs_sandbox = any_sandboxed([task.env_id])
    except UnknownEnvironment as error:
        problem = problem or missing_environment(task, found, str(error))
    steps = answered(found)
    return ReplayPage(
        trajectory=found.id,
        run=found.run,
        group=found.group,
        member=found.member,
        task=task,
        problem=problem,
        deterministic=found.deterministic,
        needs_sandbox=needs_sandbox,
        turns=[ReplayTurn(step.index, Cut.of(step.action, ACTION_CHARS)) for step in steps],
        failed_turns=len(found.steps) - len(steps),
    )
