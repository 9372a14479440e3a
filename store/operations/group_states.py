"""The state machine of a group, which makes the table of groups the queue between rollout and learner.

``open → scoring → ready | filtered | failed`` and ``ready → leased → consumed``. A group whose members are not scored,
such as one of an evaluation, closes without ``scoring``. A lease that ends unused returns its group to ``ready``; a
group whose tokens became too old expires. Only a resume (``operations.resume``) moves a group out of ``consumed``,
together with the update that consumed it.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, select, update

from ...records import GroupState
from ..errors import NotFound, StoreConflict
from ..schema import no_of, rollout_group
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

_CHUNK = 500


def states_of(
    conn: Connection, groups: Iterable[str], *, run: str | None = None, lock: bool = False
) -> dict[str, GroupState]:
    """Return the state of each group; with ``lock``, no other writer changes it before this transaction ends.

    Raises:
        NotFound: the store has no such group, or ``run`` is given and the group belongs to another run.
    """
    wanted = sorted(set(groups))
    statement = select(rollout_group.c.id, rollout_group.c.state).where(
        rollout_group.c.id.in_(bindparam("groups", expanding=True))
    )
    if run is not None:
        statement = statement.where(rollout_group.c.run_no == no_of(run_table, run))
    if lock:
        statement = statement.order_by(rollout_group.c.no).with_for_update(key_share=True)
    found: dict[str, GroupState] = {}
    for start in range(0, len(wanted), _CHUNK):
        rows = conn.execute(statement, {"groups": wanted[start : start + _CHUNK]})
        found.update((name, GroupState(state)) for name, state in rows)
    if missing := [name for name in wanted if name not in found]:
        where = "in the store" if run is None else f"of run {run} in the store"
        raise NotFound(f"no group {missing[0]} {where}")
    return found


def transition(
    conn: Connection,
    groups: Sequence[str],
    to: GroupState,
    *,
    reason: str | None = None,
    table: dict[GroupState, frozenset[GroupState]] = TRANSITIONS,
    **columns: object,
) -> list[str]:
    """Move ``groups`` to state ``to``, set ``columns``, and return the moved ones; groups in that state stay untouched.

    Raises:
        StoreConflict: ``table`` does not allow the transition of a group.
        NotFound: a group is not in the store.
    """
    states = states_of(conn, groups, lock=True)
    moved = [name for name in groups if states[name] is not to]
    for name in moved:
        if to not in table.get(states[name], frozenset()):
            raise StoreConflict(f"group {name} cannot change from `{states[name]}` to `{to}`")
    values = dict(columns, state=to.value)
    if reason is not None:
        values["reason"] = reason
    statement = (
        update(rollout_group).where(rollout_group.c.id.in_(bindparam("groups", expanding=True))).values(**values)
    )
    for start in range(0, len(moved), _CHUNK):
        conn.execute(statement, {"groups": moved[start : start + _CHUNK]})
    return moved
