"""Writes about a run as a whole: its beginning and end, its policy versions, its metrics."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, ScalarSelect, func, insert, select, update

from ...records import GroupState
from ..errors import Fenced, NotFound, StoreConflict
from ..schema import insert_once, metric, policy_version, rollout_group
from ..schema import run as run_table
from ..schema.types import uuid7
from .group_states import RUN_ENDED, transition
from .transaction import Transaction, numbers_of, operation

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
    parent_version: int | None = None,
    git_revision: str = "",
    packages: Mapping[str, str] | None = None,
    driver: str = "",
    after_update: int = 0,
    extends: bool = False,
) -> int:
    """Begin a run, or resume an unfinished one of the same name and ``config_hash``: its ``config`` is replaced and a
    requested stop is cleared. The keys whose values differ are added to ``changes``, with ``after_update``.
    With ``extends``, a finished one too.

    Args:
        parent: the run that this one is a fork of, from its ``parent_version``.
        packages: the versions of the packages that compute the run.
        driver: an id of the process that drives the run.
        after_update: the update from which a resumed run continues.

    Returns:
        The epoch of this driver: one more than that of the driver before. Its writes carry it, and from now on those
        of earlier drivers are refused.

    Raises:
        StoreConflict: a run of that name is finished, or has another ``config_hash`` and did not fail before it played
            or saved anything.
    """
    row = {
        "id": run,
        "uid": uuid7(),
        "kind": kind,
        "status": "running",
        "parent_no": None if parent is None else numbers_of(tx.conn, run_table, [parent])[parent],
        "parent_version": parent_version,
        "code_version": code_version,
        "git_revision": git_revision,
        "packages": dict(packages or {}),
        "config_hash": config_hash,
        "config": dict(config),
        "created_at": tx.now,
    }
    tx.conn.execute(insert_once(tx.conn.dialect.name, run_table), row)
    stored = lock_run(tx, run)
    frees_its_name = stored.status == "failed" and is_empty(tx.conn, stored.no)
    if stored.config_hash != config_hash and not frees_its_name:
        raise StoreConflict(f"run {run} exists with another config; give this run another name, or use `--fork`")
    if stored.status == "finished" and not extends:
        raise StoreConflict(f"run {run} is finished: give the new run another name")
    epoch = int(stored.epoch)
    if epoch and stored.driver == driver:
        return epoch
    values = {"status": "running", "stop_requested": False, "error": "", "ended_at": None, "config": row["config"]}
    values |= {"epoch": epoch + 1, "driver": driver, "config_hash": config_hash}
    if epoch and (keys := _differences(stored.config, config)):
        values["changes"] = [*stored.changes, {"after_update": after_update, "keys": keys}]
    tx.conn.execute(update(run_table).where(run_table.c.no == stored.no).values(**values))
    return epoch + 1


def is_empty(conn: Connection, run_no: int | ScalarSelect[int]) -> bool:
    """Return whether a run has neither a group nor a checkpoint."""
    group = select(rollout_group.c.no).where(rollout_group.c.run_no == run_no)
    saved = select(policy_version.c.id).where(policy_version.c.run_no == run_no, policy_version.c.checkpoint != "")
    return not any(conn.execute(select(found.exists())).scalar_one() for found in (group, saved))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> dict[str, list[Any]]:
    """Return the dotted keys whose values differ, each with its old and its new value; None where it is missing."""
    found: dict[str, list[Any]] = {}
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found |= _differences(before, after, f"{path}{key}.")
        elif before != after:
            found[f"{path}{key}"] = [before, after]
    return found


@operation
def finish_run(tx: Transaction, *, run: str, status: str, error: str = "", epoch: int | None = None) -> None:
    """End a run as ``finished``, ``failed`` or ``stopped``. A finished run is not resumed, so its groups that were not
    scored yet fail.

    Raises:
        ValueError: ``status`` is none of these.
        StoreConflict: the run has already ended as ``finished``, and ``status`` is another one.
    """
    if status not in END_STATUSES:
        raise ValueError(f"a run ends as one of {', '.join(END_STATUSES)}, not {status!r}")
    row = lock_run(tx, run, epoch)
    stored = row.status
    if stored == "finished" and status != stored:
        raise StoreConflict(f"run {run} is finished; it cannot end as {status}")
    if stored != status:
        values = {"status": status, "error": error, "ended_at": tx.now}
        tx.conn.execute(update(run_table).where(run_table.c.no == row.no).values(**values))
        if status == "finished":
            key = (rollout_group.c.run_no == row.no) & (rollout_group.c.state == GroupState.SCORING.value)
            unscored = list(tx.conn.execute(select(rollout_group.c.id).where(key)).scalars())
            transition(tx.conn, unscored, GroupState.FAILED, reason=RUN_ENDED)


@operation
def request_stop(tx: Transaction, *, run: str) -> None:
    """Set the flag ``stop_requested`` of a run, which its driver reads. Raises NotFound."""
    tx.conn.execute(update(run_table).where(run_table.c.no == lock_run(tx, run).no).values(stop_requested=True))


@operation
def add_version(
    tx: Transaction, *, run: str, update: int, parent: int | None, weights_hash: str = "", epoch: int | None = None
) -> int:
    """Record new weights and return their id, which counts up and is never reused. The same call again returns the same
    id.

    Raises:
        StoreConflict: the surviving history has another version at ``update``, or ``parent`` is not its newest one.
    """
    run_no = lock_run(tx, run, epoch).no
    stored = surviving_version(tx, run_no, update)
    if stored is not None:
        if stored.parent_id == parent:
            return int(stored.id)
        raise StoreConflict(
            f"update {update} of run {run} made version {stored.id} from {stored.parent_id}, not {parent}"
        )
    if parent is not None:
        before = surviving_version(tx, run_no, update - 1)
        if before is None or before.id != parent:
            raise StoreConflict(
                f"update {update - 1} of run {run} did not make version {parent}: resume from a checkpoint"
            )
    highest = select(func.coalesce(func.max(policy_version.c.id), -1)).where(policy_version.c.run_no == run_no)
    new = int(tx.conn.execute(highest).scalar_one()) + 1
    row = {"run_no": run_no, "id": new, "parent_id": parent, "update_no": update, "weights_hash": weights_hash}
    row["created_at"] = tx.now
    tx.conn.execute(insert(policy_version), row)
    return new


@operation
def set_checkpoint(tx: Transaction, *, run: str, version: int, path: str, epoch: int | None = None) -> None:
    """Record the path of a version's checkpoint in the folder of the run, after it was written and synced.

    Raises NotFound, Fenced.
    """
    run_no = lock_run(tx, run, epoch).no
    key = (policy_version.c.run_no == run_no) & (policy_version.c.id == version)
    if not tx.conn.execute(update(policy_version).where(key).values(checkpoint=path)).rowcount:
        raise NotFound(f"run {run} has no version {version}")


@operation
def add_metrics(
    tx: Transaction, *, run: str, update: int, metrics: Mapping[str, Any], kind: str = "train", epoch: int | None = None
) -> None:
    """Store ``metrics`` of one update under ``kind``; the same kind and update again replaces them."""
    run_no = lock_run(tx, run, epoch).no
    key = (metric.c.run_no == run_no) & (metric.c.kind == kind) & (metric.c.update_no == update) & ~metric.c.abandoned
    values = {"data": dict(metrics), "created_at": tx.now}
    if not tx.conn.execute(metric.update().where(key).values(**values)).rowcount:
        tx.conn.execute(insert(metric), {"run_no": run_no, "kind": kind, "update_no": update, **values})


def lock_run(tx: Transaction, run: str, epoch: int | None = None) -> Row[Any]:
    """Lock the row of a run until the transaction ends, so that writes of its drivers are serial, and return it.

    The writes of workers, whose rows refer to the run, do not wait for this lock.

    Args:
        epoch: that of the driver that writes; None for a write that is not a driver's.

    Raises:
        Fenced: another driver has taken over the run.
        NotFound: the run is not in the store.
    """
    statement = select(run_table).where(run_table.c.id == run).with_for_update(key_share=True)
    row = tx.conn.execute(statement).one_or_none()
    if row is None:
        raise NotFound(f"no run {run} in the store")
    _check_epoch(row.id, row.epoch, epoch)
    return row


def fence(tx: Transaction, run_no: int, epoch: int | None) -> None:
    """Check that the driver with ``epoch`` still drives the run, until the transaction ends; None checks nothing.

    Raises:
        Fenced: another driver has taken over the run.
    """
    if epoch is not None:
        statement = select(run_table.c.id, run_table.c.epoch).where(run_table.c.no == run_no)
        row = tx.conn.execute(statement.with_for_update(read=True)).one()
        _check_epoch(row.id, row.epoch, epoch)


def _check_epoch(run: str, stored: int, epoch: int | None) -> None:
    if epoch is not None and stored != epoch:
        raise Fenced(
            f"run {run} is now driven by another process (driver {stored}; this one is driver {epoch}), so nothing was "
            "written: end this process"
        )


def surviving_version(tx: Transaction, run_no: int, at: int) -> Row[Any] | None:
    """Return the version that update ``at`` made in the surviving history, if any."""
    key = (policy_version.c.run_no == run_no) & (policy_version.c.update_no == at) & ~policy_version.c.abandoned
    return tx.conn.execute(select(policy_version).where(key)).one_or_none()
