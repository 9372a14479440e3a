"""The trajectories that a retention policy may prune, oldest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, exists, false, or_, select, true

from ...records import GroupState, Source, Status
from ..database import Database
from ..schema import SUCCEEDED, batch_group, batch_item, policy_version, rollout_group, run, trajectory
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
