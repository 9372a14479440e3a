"""Whether an episode can be executed again, and its turns, next to which the verification appears."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....agents.reexecution.stored import missing_environment, not_executable
from ....base.process.user_code import not_imported
from ....envs.registry import is_registered
from ....envs.sandboxes import any_sandboxed
from ....records import Task
from ....store import queries
from ....store.database import Database
from ..given import Given
from .episode.part import load_part, turn_total
from .text import Cut

ACTION_CHARS = 400
TURNS_SHOWN = 500


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
    """``TURNS_SHOWN`` of them, from ``start`` on."""
    total: int
    """Turns that are executed."""
    start: int
    previous_start: int | None
    next_start: int | None
    failed_turns: int
    """Turns on which the environment failed: they are not executed."""


def load_replay(database: Database, given: Given) -> ReplayPage:
    """Return the turns of an episode that can be executed again. Nothing is executed."""
    name, start = given.path["trajectory"], given.number("start")
    end = start + TURNS_SHOWN
    part = load_part(database, name, turn_total(database, name), start, end, texts=False)
    with database.read() as conn:
        task, (answered, failed) = queries.group_of(conn, name).task, queries.answered_turns(conn, name)
    found = part.found
    problem, needs_sandbox = not_executable(found, task.env_id, answered), False
    if is_registered(task.env_id):
        needs_sandbox = any_sandboxed([task.env_id])
    else:
        reason = f"environment `{task.env_id}` is not registered: {not_imported(task.env_id.rpartition(':')[0])}"
        problem = problem or missing_environment(task, found, reason)
    return ReplayPage(
        trajectory=found.id,
        run=found.run,
        group=found.group,
        member=found.member,
        task=task,
        problem=problem,
        deterministic=found.deterministic,
        needs_sandbox=needs_sandbox,
        turns=[
            ReplayTurn(step.index, Cut.of(step.action, ACTION_CHARS))
            for step in part.steps(start, end)
            if not step.failed
        ],
        total=answered,
        start=start,
        previous_start=max(start - TURNS_SHOWN, 0) if start else None,
        next_start=end if end < answered else None,
        failed_turns=failed,
    )
