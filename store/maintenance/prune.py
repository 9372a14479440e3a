"""Select the trajectories that a retention policy may prune, oldest first, and remove their content or their turns.

The heads stay, with seals of what is left. Before anything is removed, the stored rows are compared with their
digests: an altered trajectory stays as it is, so that pruning hides no alteration. Rows are deleted and inserted again
without their content, because an update in place frees no page of SQLite.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    exists,
    false,
    insert,
    or_,
    select,
    true,
    update,
)

from ...records import GroupState, Source, Status
from ..content.turn_rows import TABLES, Row, TurnRows, rows_with, turn_rows
from ..database import Database
from ..schema import (
    SUCCEEDED,
    batch_group,
    batch_item,
    message_image,
    partial_turn,
    policy_version,
    rollout_group,
    run,
    step,
    step_image,
    trajectory,
)
from .policy import RetentionPolicy

QUEUED = (GroupState.OPEN, GroupState.SCORING, GroupState.READY, GroupState.LEASED)
"""The states of a group that the learner may still train on."""

_CHUNK = 200


@dataclass(frozen=True, slots=True)
class Floor:
    """What one training run still needs."""

    run_no: int
    sampled: int
    """Trajectories that this version or a later one sampled stay."""
    trained: int
    """Groups that the update to this version, or a later update, consumed stay."""


def floors(conn: Connection, policy: RetentionPolicy, only: str | None = None) -> list[Floor]:
    """Return what each training run needs, the oldest run first; ``only`` names one run.

    A run whose trajectories an unfinished offline run trains on is left out: that run may still read all of them.
    """
    runs = conn.execute(select(run.c.no, run.c.id, run.c.status, run.c.config).where(run.c.kind == "train")).all()
    read = {_source(one.config) for one in runs if one.status == "running"}
    chosen = sorted(one.no for one in runs if one.id not in read and only in (None, one.id))
    return [_floor(conn, number, policy.keep_versions or 1) for number in chosen]


def _source(config: Any) -> str | None:
    """Return the run whose groups an offline run trains on; None for any other configuration."""
    offline = config.get("offline") if isinstance(config, dict) else None
    return offline.get("run") if isinstance(offline, dict) else None


def _floor(conn: Connection, number: int, kept: int) -> Floor:
    surviving = (
        select(policy_version.c.id)
        .where(policy_version.c.run_no == number, policy_version.c.abandoned == false())
        .order_by(policy_version.c.id.desc())
    )
    newest = list(conn.execute(surviving.limit(kept)).scalars())
    sampled = newest[-1] if len(newest) == kept else 0
    saved = conn.execute(surviving.where(policy_version.c.checkpoint != "").limit(1)).scalar_one_or_none()
    return Floor(number, sampled, min(sampled, 0 if saved is None else saved + 1))


def candidates(database: Database, floor: Floor, *, success: bool) -> Iterator[list[int]]:
    """Yield the ``no`` of the trajectories of a run that may be pruned, oldest first, at most 200 at a time.

    Args:
        success: the successful ones; else all others.
    """
    after = 0
    while True:
        with database.read() as conn:
            found = list(conn.execute(_selection(success), _arguments(floor, after)).scalars())
        if not found:
            return
        yield found
        after = found[-1]


def still_prunable(conn: Connection, floor: Floor, numbers: list[int]) -> list[int]:
    """Return those of ``numbers`` that may be pruned, inside the transaction that prunes them."""
    statement = select(trajectory.c.no).select_from(_HEADS).where(_PRUNABLE, trajectory.c.no.in_(numbers))
    locked = statement.order_by(trajectory.c.no).with_for_update(of=trajectory)
    return list(conn.execute(locked, _arguments(floor, 0)).scalars())


def _arguments(floor: Floor, after: int) -> dict[str, Any]:
    return {"run": floor.run_no, "sampled": floor.sampled, "trained": floor.trained, "after": after}


_HEADS = trajectory.join(rollout_group, rollout_group.c.no == trajectory.c.group_no)


def _unused(table: Any, ours: ColumnElement[Any], theirs: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that no surviving update used a row: of this run since ``trained``, of others ever."""
    recent = or_(table.c.version_id >= bindparam("trained"), table.c.run_no != bindparam("run"))
    return ~exists(select(1).where(theirs == ours, table.c.abandoned == false(), recent))


_PRUNABLE = and_(
    trajectory.c.run_no == bindparam("run"),
    trajectory.c.pruned_at.is_(None),
    trajectory.c.status != Status.RUNNING.value,
    trajectory.c.source == Source.POLICY.value,
    rollout_group.c.state.not_in([state.value for state in QUEUED]),
    or_(
        trajectory.c.abandoned == true(),
        trajectory.c.max_version.is_(None),
        trajectory.c.max_version < bindparam("sampled"),
    ),
    _unused(batch_group, trajectory.c.group_no, batch_group.c.group_no),
    _unused(batch_item, trajectory.c.no, batch_item.c.trajectory_no),
)


def _selection(success: bool) -> Any:
    return (
        select(trajectory.c.no)
        .select_from(_HEADS)
        .where(_PRUNABLE, SUCCEEDED if success else ~SUCCEEDED)
        .where(trajectory.c.no > bindparam("after"))
        .order_by(trajectory.c.no)
        .limit(_CHUNK)
    )


CONTENT: Mapping[Table, tuple[str, ...]] = {
    step: ("observation", "observation_blob", "messages", "messages_blob"),
    partial_turn: ("messages", "messages_blob"),
    trajectory: ("final_observation", "final_observation_blob"),
}
"""The columns that pruning sets to NULL."""

_AMONG: BindParameter[Any] = bindparam("nos", expanding=True)
_PRUNED = update(trajectory).where(trajectory.c.no == bindparam("key"))


@dataclass(slots=True)
class Removed:
    """What one call removed, or would remove."""

    trajectories: int = 0
    bytes: int = 0
    """Bytes of content in the rows; blobs are counted when they are deleted."""
    blobs: set[str] = field(default_factory=set)
    """Names of the blobs that the removed rows referred to."""
    altered: list[str] = field(default_factory=list)
    """Ids of the trajectories that were left because they differ from their seals."""


def prune(
    database: Database, floor: Floor, numbers: Sequence[int], *, screenshot_interval: int, dry_run: bool = False
) -> Removed:
    """Remove the content of trajectories (``no``) of one run that may still be pruned.

    Args:
        screenshot_interval: keep the images of turns 0, k, 2k, and so on; 0 keeps none.
        dry_run: count only.
    """
    removed = Removed()
    with database.read() as conn:
        heads, rows = _load(conn, numbers)
    intact = _intact(heads, rows, removed)
    left = {no: _without_content(rows[no], screenshot_interval) for no in intact}
    if not dry_run:
        with database.transaction() as tx:
            intact = [no for no in still_prunable(tx.conn, floor, intact) if no in left]
            _replace(tx.conn, {no: left[no] for no in intact})
            bare = dict.fromkeys(CONTENT[trajectory])
            _seal(tx.conn, {no: heads[no] | bare for no in intact}, left, pruned_at=tx.now)
    removed.trajectories = len(intact)
    for no in intact:
        removed.bytes += _size(rows[no], heads[no]) - _size(left[no], {})
        removed.blobs |= _names(rows[no], heads[no]) - _names(left[no], {})
    return removed


def delete_turns(database: Database, numbers: Sequence[int], *, dry_run: bool = False) -> Removed:
    """Delete the turns of pruned trajectories (``no``) with their remaining images; ``dry_run`` as in ``prune``."""
    removed = Removed()
    with database.read() as conn:
        heads, rows = _load(conn, numbers)
    intact = [no for no in _intact(heads, rows, removed) if heads[no]["pruned_at"] is not None]
    none = {no: TurnRows({table: [] for table in TABLES}) for no in intact}
    if not dry_run:
        with database.transaction() as tx:
            _replace(tx.conn, none)
            _seal(tx.conn, {no: heads[no] for no in intact}, none)
    removed.trajectories = len(intact)
    for no in intact:
        removed.bytes += sum(len(str(row)) for table in TABLES for row in rows[no][table])
        removed.blobs |= _names(rows[no], {})
    return removed


def _load(conn: Connection, numbers: Sequence[int]) -> tuple[dict[int, Row], dict[int, TurnRows]]:
    """Return the heads and the rows of trajectories."""
    heads = {row["no"]: row for row in rows_with(conn, select(trajectory), trajectory.c.no, numbers)}
    return heads, turn_rows(conn, heads)


def _intact(heads: Mapping[int, Row], rows: Mapping[int, TurnRows], removed: Removed) -> list[int]:
    """Return the trajectories whose rows have their seal; add the ids of the others to ``removed``."""
    intact = []
    for no, head in heads.items():
        if head["seal"] == rows[no].seal(head) and not any(rows[no].altered()):
            intact.append(no)
        else:
            removed.altered.append(head["id"])
    return intact


def _without_content(rows: TurnRows, screenshot_interval: int) -> TurnRows:
    """Return the rows without their content; with an interval, the images of some turns and of the end stay."""
    end = len(rows[step])
    kept = [
        row
        for row in rows[step_image]
        if screenshot_interval > 0 and (row["step_idx"] == end or row["step_idx"] % screenshot_interval == 0)
    ]
    bare = {table: [row | dict.fromkeys(CONTENT[table]) for row in rows[table]] for table in (step, partial_turn)}
    return TurnRows({**bare, message_image: [], step_image: kept}).sealed()


def _replace(conn: Connection, left: Mapping[int, TurnRows]) -> None:
    """Replace the rows of each trajectory by those that are left of them."""
    if not left:
        return
    for table in TABLES:
        conn.execute(delete(table).where(table.c.trajectory_no.in_(_AMONG)), {"nos": list(left)})
        if rows := [row for no in sorted(left) for row in left[no][table]]:
            conn.execute(insert(table), rows)


def _seal(conn: Connection, heads: Mapping[int, Row], left: Mapping[int, TurnRows], **columns: object) -> None:
    """Write the heads without their content, with the seals of what is left."""
    updates = []
    for no, head in heads.items():
        bare = {name: head[name] for name in CONTENT[trajectory]}
        updates.append({"key": no, **bare, **columns, "seal": left[no].seal(head | columns)})
    if updates:
        conn.execute(_PRUNED, updates)


def _size(rows: TurnRows, head: Mapping[str, Any]) -> int:
    """Return the bytes of the content in the rows themselves."""
    values = [
        row.get(name) for table, names in CONTENT.items() if table in rows for row in rows[table] for name in names
    ]
    values += [head.get(name) for name in CONTENT[trajectory]]
    images = len(rows[message_image]) + len(rows[step_image])
    return sum(len(value) for value in values if value is not None) + 50 * images


def _names(rows: TurnRows, head: Mapping[str, Any]) -> set[str]:
    """Return the names of the blobs that the rows refer to."""
    return {
        value
        for row in (*(row for table in TABLES for row in rows[table]), head)
        for name, value in row.items()
        if value is not None and (name == "blob_hash" or name.endswith("_blob"))
    }
