"""The state machine of a group, which makes the table of groups the queue between rollout and learner.

``open → scoring → ready | filtered | failed`` and ``ready → leased → consumed``. A group whose members are not scored,
such as one of an evaluation, closes without ``scoring``. A lease that ends unused returns its group to ``ready``; a
group whose tokens became too old expires. Only a resume (``operations.resume``) moves a group out of ``consumed``,
together with the update that consumed it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, select, update

from ...records import GroupState
from ..errors import NotFound, StoreConflict
from ..schema import among, no_of, rollout_group
from ..schema import run as run_table

OPEN, SCORING = GroupState.OPEN, GroupState.SCORING
READY, FILTERED, FAILED = GroupState.READY, GroupState.FILTERED, GroupState.FAILED
LEASED, CONSUMED, EXPIRED = GroupState.LEASED, GroupState.CONSUMED, GroupState.EXPIRED

TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    OPEN: frozenset({SCORING, READY, FILTERED, FAILED}),
    SCORING: frozenset({READY, FILTERED, FAILED}),
    READY: frozenset({LEASED, EXPIRED}),
    FILTERED: frozenset(),
    FAILED: frozenset(),
    LEASED: frozenset({CONSUMED, READY, EXPIRED}),
    CONSUMED: frozenset(),
    EXPIRED: frozenset(),
}
"""The states that may follow each state while a run is under way."""

RESUME_TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    OPEN: frozenset({FAILED}),
    SCORING: frozenset({EXPIRED}),
    READY: frozenset({EXPIRED}),
    LEASED: frozenset({READY, EXPIRED}),
    CONSUMED: frozenset({READY, EXPIRED}),
}
"""The states that a resume may move a group to; it may also leave the group as it is."""

RUN_ENDED = "the run ended while it was running"
"""The reason of a group that failed only because its run ended."""
RUN_RESUMED = "its run was resumed"
"""The reason of a group that failed because it was open when its run was resumed."""
CONTENT_REMOVED = "retention removed its content"
"""The reason of a group that a resume cannot return to the queue."""

_LOCKED = select(rollout_group).order_by(rollout_group.c.no).with_for_update(key_share=True)
"""Locks the rows: no other writer changes them before this transaction ends."""


def states_of(conn: Connection, groups: Iterable[str], *, run: str) -> dict[str, GroupState]:
    """Return the state of each group of a run. Raises NotFound: the run has no such group in the store."""
    statement = select(rollout_group).where(rollout_group.c.run_no == no_of(run_table, run))
    return {name: GroupState(row["state"]) for name, row in _rows(conn, statement, groups, f"of run {run} ").items()}


def _rows(conn: Connection, statement: Select[Any], groups: Iterable[str], where: str = "") -> dict[str, RowMapping]:
    """Return the row of each group by its id. Raises NotFound."""
    found = {row.id: row._mapping for row in among(conn, statement, rollout_group.c.id, groups)}
    if missing := [name for name in groups if name not in found]:
        raise NotFound(f"no group {missing[0]} {where}in the store")
    return found


def transition(
    conn: Connection,
    groups: Sequence[str],
    to: GroupState,
    *,
    reason: str | None = None,
    table: dict[GroupState, frozenset[GroupState]] = TRANSITIONS,
    of_group: Mapping[str, Mapping[str, object]] | None = None,
    **columns: object,
) -> list[str]:
    """Move ``groups`` to state ``to``, set ``columns``, and return the moved ones; groups in that state stay untouched.

    Args:
        table: the states that may follow each state.
        of_group: columns whose values differ from group to group, by group; the same columns for all.

    Raises:
        StoreConflict: ``table`` does not allow the transition of a group.
        NotFound: a group is not in the store.
    """
    rows = _rows(conn, _LOCKED, groups)
    moved = [name for name in groups if rows[name]["state"] != to]
    for name in moved:
        state = GroupState(rows[name]["state"])
        if to not in table.get(state, frozenset()):
            raise StoreConflict(f"group {name} cannot change from `{state}` to `{to}`")
    values = dict(columns, state=to.value)
    if reason is not None:
        values["reason"] = reason
    own = of_group or {}
    changes = [{**values, **own.get(name, {}), "key": rows[name]["no"]} for name in moved]
    if changes:
        names = [name for name in changes[0] if name != "key"]
        which = update(rollout_group).where(rollout_group.c.no == bindparam("key"))
        conn.execute(which.values({name: bindparam(name) for name in names}), changes)
    return moved


IMPORTED = "imported"
"""Reason of the state of an imported group."""
