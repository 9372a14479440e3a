"""The history of a run: its versions, its updates with the trajectories of their batches, and the way back."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, false, func, select

from ...records import PolicyVersion
from ..errors import NotFound
from ..project import run_folder
from ..schema import (
    EVALUATION,
    among,
    batch_group,
    batch_item,
    metric,
    policy_version,
    rollout_group,
    task,
    train_batch,
    trajectory,
)
from ..schema import run as run_table
from .conditions import of_run, surviving
from .lists import columns_of, find_run
from .nearest import not_found


@dataclass(frozen=True, slots=True)
class BatchGroup:
    """A group of a batch."""

    id: str
    task: str
    env_id: str
    fresh: bool
    """Whether the update consumed the group; False for declared reuse."""


@dataclass(frozen=True, slots=True)
class BatchMember:
    """A trajectory that an update trained on."""

    trajectory: str
    group: str
    """The group that the trajectory was played in."""
    fresh: bool
    tokens_trained: int
    max_staleness: int
    """In updates."""
    mean_advantage: float
    status: str
    success: bool | None
    reward: float
    min_version: int | None
    max_version: int | None
    sandbox: dict[str, Any] | None
    """Image, digest, backend and limits of the sandbox, as the environment reported them; None if it reported none."""
    env_package: str
    detail: bytes | None
    """The values per token (``trainer.learner.provenance``); None if the update has no recipe."""


@dataclass(frozen=True, slots=True)
class StoredUpdate:
    """An update of a run with its whole batch."""

    run: str
    update: int
    version: int
    """Id of the version that the update made."""
    parent: int | None
    """Id of the version that was updated."""
    weights_hash: str
    """Hash of the weights of ``version``; empty if the learner did not compute it."""
    checkpoint: str
    created_at: datetime
    metrics: dict[str, Any]
    recipe: dict[str, Any] | None
    """What re-training needs (``trainer.learner.provenance``); None if the update was stored without it."""
    groups: list[BatchGroup]
    """In the order of the batch."""
    members: list[BatchMember]
    """In the order of the batch."""


@dataclass(frozen=True, slots=True)
class TrajectoryUse:
    """An update that trained on a trajectory."""

    run: str
    update: int
    version: int
    abandoned: bool
    """Whether a resume abandoned the update."""
    fresh: bool
    tokens_trained: int
    max_staleness: int
    mean_advantage: float
    turn_advantages: dict[str, float]
    """Index of a turn -> mean over its trained tokens."""
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Branch:
    """A trajectory that another one is a branch of."""

    trajectory: str
    run: str
    group: str
    member: int
    branched_at: int
    """The index of its first turn that is not its parent's."""
    status: str
    success: bool | None
    reward: float


def branches_of(conn: Connection, trajectory_id: str, limit: int = 100) -> list[Branch]:
    """Return the branches of a trajectory, of every run, by the turn at which they begin; at most ``limit``."""
    parent = trajectory.alias("parent")
    others = {"trajectory": trajectory.c.id, "run": run_table.c.id, "group": rollout_group.c.id}
    which = (
        select(*columns_of(Branch, trajectory, **others))
        .join(parent, parent.c.no == trajectory.c.branched_from)
        .join(run_table, run_table.c.no == trajectory.c.run_no)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .where(parent.c.id == trajectory_id)
        .order_by(trajectory.c.branched_at, trajectory.c.no)
        .limit(limit)
    )
    return [Branch(*row) for row in conn.execute(which)]


def load_update(conn: Connection, run: str, update: int) -> StoredUpdate:
    """Return an update of the surviving history of a run.

    Raises:
        NotFound: the run or the update is not in the store; the message names the nearest one.
    """
    both = and_(policy_version.c.run_no == train_batch.c.run_no, policy_version.c.id == train_batch.c.version_id)
    columns = policy_version.c.parent_id, policy_version.c.weights_hash, policy_version.c.checkpoint
    which = select(train_batch, *columns).join(policy_version, both)
    row = conn.execute(which.where(surviving(train_batch, run), train_batch.c.update_no == update)).one_or_none()
    if row is None:
        raise _no_update(conn, run, update)
    return StoredUpdate(
        run=run,
        update=update,
        version=row.version_id,
        parent=row.parent_id,
        weights_hash=row.weights_hash,
        checkpoint=_folder(conn, run, row.checkpoint),
        created_at=row.created_at,
        metrics=row.metrics,
        recipe=row.recipe,
        groups=_groups(conn, row),
        members=_members(conn, row),
    )


def update_numbers(conn: Connection, run: str) -> list[int]:
    """Return the numbers of the updates in the surviving history of a run, in ascending order."""
    which = select(train_batch.c.update_no).where(surviving(train_batch, run)).order_by(train_batch.c.update_no)
    return list(conn.execute(which).scalars())


def updates_with(conn: Connection, trajectory_id: str) -> list[TrajectoryUse]:
    """Return the updates that trained on a trajectory, abandoned ones included, oldest first. Raises NotFound."""
    number = conn.execute(select(trajectory.c.no).where(trajectory.c.id == trajectory_id)).scalar_one_or_none()
    if number is None:
        raise not_found(conn, trajectory, "trajectory", trajectory_id)
    both = and_(train_batch.c.run_no == batch_item.c.run_no, train_batch.c.version_id == batch_item.c.version_id)
    others = {"run": run_table.c.id, "update": train_batch.c.update_no, "version": batch_item.c.version_id}
    which = (
        select(*columns_of(TrajectoryUse, batch_item, **others, created_at=train_batch.c.created_at))
        .join(train_batch, both)
        .join(run_table, run_table.c.no == batch_item.c.run_no)
        .where(batch_item.c.trajectory_no == number)
        .order_by(train_batch.c.created_at, batch_item.c.run_no, batch_item.c.version_id)
    )
    return [TrajectoryUse(*row) for row in conn.execute(which)]


def reused_groups(conn: Connection, run: str) -> set[str]:
    """Return the groups that surviving updates of a run reused as a whole; those of an offline run are of another."""
    which = (
        select(rollout_group.c.id)
        .join(batch_group, batch_group.c.group_no == rollout_group.c.no)
        .where(surviving(batch_group, run), batch_group.c.fresh == false())
    )
    return set(conn.execute(which).scalars())


def _groups(conn: Connection, batch: Row[Any]) -> list[BatchGroup]:
    which = (
        select(rollout_group.c.id, task.c.id.label("task_id"), task.c.env_id, batch_group.c.fresh)
        .join(rollout_group, rollout_group.c.no == batch_group.c.group_no)
        .join(task, task.c.no == rollout_group.c.task_no)
        .where(batch_group.c.run_no == batch.run_no, batch_group.c.version_id == batch.version_id)
        .order_by(batch_group.c.idx)
    )
    return [BatchGroup(row.id, row.task_id, row.env_id, row.fresh) for row in conn.execute(which)]


def _members(conn: Connection, batch: Row[Any]) -> list[BatchMember]:
    others = {name: trajectory.c[name] for name in ("status", "success", "reward", "min_version", "max_version")}
    others |= {"trajectory": trajectory.c.id, "group": rollout_group.c.id}
    extras = {"sandbox": trajectory.c.extras, "env_package": trajectory.c.extras}
    which = (
        select(*columns_of(BatchMember, batch_item, **others, **extras))
        .join(trajectory, trajectory.c.no == batch_item.c.trajectory_no)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .where(batch_item.c.run_no == batch.run_no, batch_item.c.version_id == batch.version_id)
        .order_by(batch_item.c.idx)
    )
    members = []
    for row in conn.execute(which):
        reported = row.sandbox.get("sandbox")
        own: dict[str, Any] = {"sandbox": reported if isinstance(reported, dict) else None}
        own["env_package"] = str(row.env_package.get("env_package", ""))
        members.append(BatchMember(**(row._asdict() | own)))
    return members


def _no_update(conn: Connection, run: str, update: int) -> NotFound:
    if conn.execute(select(run_table.c.no).where(run_table.c.id == run)).scalar_one_or_none() is None:
        return not_found(conn, run_table, "run", run)
    numbers = update_numbers(conn, run)
    if not numbers:
        return NotFound(f"run {run} has no update yet")
    first, last = numbers[0], numbers[-1]
    nearest = first if update < first else last
    return NotFound(f"run {run} has no update {update} (did you mean {nearest}?); it has updates {first} to {last}")


_SURVIVES = policy_version.c.abandoned == false()


def versions(conn: Connection, run: str) -> dict[int, PolicyVersion]:
    """Return all versions of a run by id, abandoned ones included."""
    return _versions(conn, run)


def _versions(conn: Connection, run: str, *where: ColumnElement[bool]) -> dict[int, PolicyVersion]:
    which = select(policy_version).where(of_run(policy_version, run), *where).order_by(policy_version.c.id)
    return {
        row.id: PolicyVersion(
            run=run,
            id=row.id,
            parent=row.parent_id,
            update=row.update_no,
            abandoned=row.abandoned,
            checkpoint=_folder(conn, run, row.checkpoint),
        )
        for row in conn.execute(which)
    }


def _folder(conn: Connection, run: str, checkpoint: str) -> str:
    """Return the folder of a checkpoint, which is stored relative to that of its run; empty without one."""
    return checkpoint and str(run_folder(conn, run) / checkpoint)


def surviving_updates(conn: Connection, run: str) -> dict[int, int]:
    """Return the number of the update that made each surviving version of a run, by id."""
    which = select(policy_version.c.id, policy_version.c.update_no).where(surviving(policy_version, run))
    return dict(map(tuple, conn.execute(which)))


def made_by(conn: Connection, run: str, names: Collection[int]) -> dict[int, int]:
    """Return the number of the update that made each of some versions of a run, by id; -1 for the untrained weights."""
    which = select(policy_version.c.id, policy_version.c.update_no).where(of_run(policy_version, run))
    return dict(map(tuple, among(conn, which, policy_version.c.id, names)))


def checkpoints(conn: Connection, run: str) -> list[PolicyVersion]:
    """Return the surviving versions that have a checkpoint, oldest first."""
    return list(_versions(conn, run, _SURVIVES, policy_version.c.checkpoint != "").values())


def latest_checkpoint(conn: Connection, run: str) -> PolicyVersion | None:
    """Return the newest surviving version that has a checkpoint: a resume continues from it."""
    newest = (
        select(func.max(policy_version.c.update_no))
        .where(surviving(policy_version, run), policy_version.c.checkpoint != "")
        .scalar_subquery()
    )
    return next(iter(_versions(conn, run, _SURVIVES, policy_version.c.update_no == newest).values()), None)


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The checkpoint of a run with the highest success on held-out tasks; the earliest of several."""

    evaluation: str
    """Name of the evaluation."""
    success: float
    low: float
    high: float
    """95 % interval of ``success``."""
    update: int
    version: int
    path: str


def best_checkpoint(conn: Connection, run: str) -> BestCheckpoint | None:
    """Return the best of the surviving checkpoints that were evaluated with the temperature and the samples of the
    newest evaluation; None if none was.
    """
    of_run_evaluation = surviving(metric, run), metric.c.kind.startswith(EVALUATION)
    newest = select(metric.c.data).where(*of_run_evaluation)
    last = conn.execute(newest.order_by(metric.c.update_no.desc(), metric.c.no.desc()).limit(1)).scalar() or {}
    evaluated = and_(
        policy_version.c.run_no == metric.c.run_no, policy_version.c.id == metric.c.data["version"].as_integer()
    )
    which = (
        select(metric.c.kind, metric.c.data, policy_version.c.update_no, policy_version.c.checkpoint)
        .join(policy_version, evaluated)
        .where(*of_run_evaluation, _SURVIVES, policy_version.c.checkpoint != "")
        .order_by(metric.c.update_no, metric.c.no)
    )
    found = [
        BestCheckpoint(
            evaluation=kind.removeprefix(EVALUATION),
            success=data["success"],
            low=data["low"],
            high=data["high"],
            update=update,
            version=data["version"],
            path=_folder(conn, run, path),
        )
        for kind, data, update, path in conn.execute(which)
        if data["success"] is not None and all(data.get(name) == last.get(name) for name in ("temperature", "samples"))
    ]
    return max(found, key=lambda one: one.success, default=None)


def find_checkpoint(conn: Connection, name: str) -> PolicyVersion:
    """Return the version that ``RUN`` (its newest checkpoint) or ``RUN@UPDATE`` names.

    Raises:
        NotFound: there is no such run, or it has no checkpoint of that update; the message lists those whose folders
            exist. The folder of the returned one may be gone: ``refuse_gone``.
    """
    run, at, update = name.partition("@")
    find_run(conn, run)
    saved = {version.update: version for version in checkpoints(conn, run)}
    if not saved:
        raise NotFound(f"run {run} has no checkpoint: name another run; `turnwise runs list` lists them")
    if not at:
        return saved[max(saved)]
    if update.isdecimal() and int(update) in saved:
        return saved[int(update)]
    listed = ", ".join(_kept_updates(saved.values())) or "none, since their folders are gone"
    raise NotFound(f"run {run} has no checkpoint of update {update or 'without a number'}; it has those of {listed}")


def refuse_gone(conn: Connection, version: PolicyVersion) -> None:
    """Refuse a version whose folder was pruned or deleted.

    Raises:
        NotFound: the folder does not exist; the message lists the updates of the run whose folders do.
    """
    if Path(version.checkpoint).is_dir():
        return
    kept = _kept_updates(checkpoints(conn, version.run))
    others = f", or name one of {', '.join(f'`{version.run}@{update}`' for update in kept)}" if kept else ""
    raise NotFound(
        f"the checkpoint of update {version.update} of run {version.run}, `{version.checkpoint}`, is gone: restore the "
        f"folder from a copy, or name its new place by `--runs`{others}"
    )


def _kept_updates(versions: Iterable[PolicyVersion]) -> list[str]:
    """Return the updates whose checkpoints have a folder, in ascending order."""
    return [str(update) for update in sorted(one.update for one in versions if Path(one.checkpoint).is_dir())]
