"""Writes about a run as a whole: its beginning and end, its policy versions, its metrics."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, func, insert, select, update

from ...records import GroupState
from ..errors import NotFound, StoreConflict
from ..schema import insert_once, metric, policy_version, rollout_group
from ..schema import run as run_table
from .group_states import RUN_ENDED, transition
from .transaction import Transaction, operation

END_STATUSES = ("finished", "failed", "stopped")


@operation
def create_run(
    tx: Transaction,
    *,
    run: str,
    config: Mapping[str, Any],
    config_hash: str,
    kind: str,
    code_version: str,
    parent: str | None = None,
) -> None:
    """Begin a run, or resume an unfinished one of the same name and ``config_hash``: its ``config`` is replaced and a
    requested stop is cleared.

    Raises:
        StoreConflict: a run of that name has another ``config_hash``, or is finished.
    """
    row = {
        "id": run,
        "kind": kind,
        "status": "running",
        "parent_id": parent,
        "code_version": code_version,
        "config_hash": config_hash,
        "config": dict(config),
        "created_at": tx.now,
    }
    tx.conn.execute(insert_once(tx.conn.dialect.name, run_table), row)
    stored = lock_run(tx, run)
    if stored.config_hash != config_hash:
        raise StoreConflict(f"run {run} exists with another config; give this run another name, or use `--fork`")
    if stored.status == "finished":
        raise StoreConflict(f"run {run} is finished: give the new run another name")
    if stored.status != "running" or stored.stop_requested or stored.config != row["config"]:
        resumed = update(run_table).where(run_table.c.id == run)
        values = {"status": "running", "stop_requested": False, "error": "", "ended_at": None}
        tx.conn.execute(resumed.values(**values, config=row["config"]))


@operation
def finish_run(tx: Transaction, *, run: str, status: str, error: str = "") -> None:
    """End a run as ``finished``, ``failed`` or ``stopped``. A finished run is not resumed, so its groups that were not
    scored yet fail.

    Raises:
        ValueError: ``status`` is none of these.
        StoreConflict: the run has already ended as ``finished``, and ``status`` is another one.
        NotFound: the run is not in the store.
    """
    if status not in END_STATUSES:
        raise ValueError(f"a run ends as one of {', '.join(END_STATUSES)}, not {status!r}")
    stored = lock_run(tx, run).status
    if stored == "finished" and status != stored:
        raise StoreConflict(f"run {run} is finished; it cannot end as {status}")
    if stored != status:
        statement = update(run_table).where(run_table.c.id == run)
        tx.conn.execute(statement.values(status=status, error=error, ended_at=tx.now))
        if status == "finished":
            key = (rollout_group.c.run_id == run) & (rollout_group.c.state == GroupState.SCORING.value)
            unscored = list(tx.conn.execute(select(rollout_group.c.id).where(key)).scalars())
            transition(tx.conn, unscored, GroupState.FAILED, reason=RUN_ENDED)


@operation
def request_stop(tx: Transaction, *, run: str) -> None:
    """Set the flag ``stop_requested`` of a run, which its driver reads. Raises NotFound."""
    lock_run(tx, run)
    tx.conn.execute(update(run_table).where(run_table.c.id == run).values(stop_requested=True))


@operation
def add_version(tx: Transaction, *, run: str, update: int, parent: int | None) -> int:
    """Record new weights and return their id, which counts up and is never reused. The same call again returns the same
    id.

    Raises:
        StoreConflict: the surviving history has another version at ``update``, or ``parent`` is not its newest one.
        NotFound: the run is not in the store.
    """
    lock_run(tx, run)
    stored = surviving_version(tx, run, update)
    if stored is not None:
        if stored.parent_id == parent:
            return int(stored.id)
        raise StoreConflict(
            f"update {update} of run {run} made version {stored.id} from {stored.parent_id}, not {parent}"
        )
    if parent is not None:
        before = surviving_version(tx, run, update - 1)
        if before is None or before.id != parent:
            raise StoreConflict(
                f"update {update - 1} of run {run} did not make version {parent}: resume from a checkpoint"
            )
    highest = select(func.coalesce(func.max(policy_version.c.id), -1)).where(policy_version.c.run_id == run)
    new = int(tx.conn.execute(highest).scalar_one()) + 1
    row = {"run_id": run, "id": new, "parent_id": parent, "update_no": update, "created_at": tx.now}
    tx.conn.execute(insert(policy_version), row)
    return new


@operation
def set_checkpoint(tx: Transaction, *, run: str, version: int, path: str) -> None:
    """Record the path of a version's checkpoint, after it was written and synced. Raises NotFound."""
    key = (policy_version.c.run_id == run) & (policy_version.c.id == version)
    if not tx.conn.execute(update(policy_version).where(key).values(checkpoint=path)).rowcount:
        raise NotFound(f"run {run} has no version {version}")


@operation
def add_metrics(tx: Transaction, *, run: str, update: int, metrics: Mapping[str, Any], kind: str = "train") -> None:
    """Store ``metrics`` of one update under ``kind``; the same kind and update again replaces them. Raises NotFound."""
    lock_run(tx, run)
    key = (metric.c.run_id == run) & (metric.c.kind == kind) & (metric.c.update_no == update) & ~metric.c.abandoned
    row = {"data": dict(metrics), "created_at": tx.now}
    if not tx.conn.execute(metric.update().where(key).values(**row)).rowcount:
        tx.conn.execute(insert(metric), dict(row, run_id=run, kind=kind, update_no=update))


def lock_run(tx: Transaction, run: str) -> Row[Any]:
    """Lock the row of a run until the transaction ends, so that writes of a run are serial, and return it.

    Raises:
        NotFound: the run is not in the store.
    """
    row = tx.conn.execute(select(run_table).where(run_table.c.id == run).with_for_update()).one_or_none()
    if row is None:
        raise NotFound(f"no run {run} in the store")
    return row


def surviving_version(tx: Transaction, run: str, at: int) -> Row[Any] | None:
    """Return the version that update ``at`` made in the surviving history, if any."""
    key = (policy_version.c.run_id == run) & (policy_version.c.update_no == at) & ~policy_version.c.abandoned
    return tx.conn.execute(select(policy_version).where(key)).one_or_none()
