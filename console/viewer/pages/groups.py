"""The groups of a run, each with its members and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....records import GroupState, Purpose
from ....store import queries
from ....store.database import Database
from ....store.errors import NotFound
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
    update: int | None
    """Only groups that closed since the update before this one, and not after it."""
    reason: str | None
    """Only groups with this reason for their state; an empty one is none."""
    states: Sequence[str]
    purposes: Sequence[str]
    groups: Sequence[GroupFate]
    after: str | None


def load_groups_page(database: Database, given: Given) -> GroupsPage:
    """Return a page of groups, filtered by ``state`` and ``purpose`` (train), or those between two updates."""
    run, states, purposes = given.path["run"], [one.value for one in GroupState], [one.value for one in Purpose]
    state, task, reason = given.choice("state", states), given.text("task"), given.query.get("reason")
    update = given.number("update") if given.text("update") else None
    driven = queries.driven_run(database, run)
    default = Purpose.TRAIN.value if driven.run.kind == "train" else Purpose.EVAL.value
    purpose = given.choice("purpose", purposes) or default
    with database.read() as conn:
        filters: dict[str, Any] = {"run": run, "state": state, "purpose": purpose, "task": task, "reason": reason}
        if update is not None:
            if (span := queries.since_update_before(conn, run, update)) is None:
                raise NotFound(f"run {run} has no update {update}")
            filters |= {"closed": span, "abandoned": False}
        rows = queries.list_groups(conn, **filters, limit=PAGE_ROWS + 1, after=given.text("after"))
        shown = rows[:PAGE_ROWS]
        fates = queries.group_fates(conn, shown, driven.status)
    after = shown[-1].id if len(rows) > PAGE_ROWS else None
    return GroupsPage(run, driven.status, state, purpose, task, update, reason, states, purposes, fates, after)
