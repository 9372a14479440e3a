"""The groups of a run, each with its members and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....records import GroupState, Purpose
from ....store import queries
from ....store.database import Database
from ....store.queries.fates import GroupFate
from ..given import Given

PAGE_ROWS = 40


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """A page of a run's groups, newest first."""

    run: str
    status: str
    state: str | None
    purpose: str
    task: str | None
    states: Sequence[str]
    purposes: Sequence[str]
    groups: Sequence[GroupFate]
    after: str | None


def load_groups_page(database: Database, given: Given) -> GroupsPage:
    """Return a page of groups, filtered by ``state`` and ``purpose`` (train)."""
    run, states, purposes = given.path["run"], [one.value for one in GroupState], [one.value for one in Purpose]
    state, task = given.choice("state", states), given.text("task")
    driven = queries.driven_run(database, run)
    default = Purpose.TRAIN.value if driven.run.kind == "train" else Purpose.EVAL.value
    purpose = given.choice("purpose", purposes) or default
    with database.read() as conn:
        rows = queries.list_groups(
            conn, run=run, state=state, purpose=purpose, task=task, limit=PAGE_ROWS + 1, after=given.text("after")
        )
        shown = rows[:PAGE_ROWS]
        fates = queries.group_fates(conn, shown, driven.status)
    after = shown[-1].id if len(rows) > PAGE_ROWS else None
    return GroupsPage(run, driven.status, state, purpose, task, states, purposes, fates, after)
