"""The blocking reads of one run, for a replay buffer: its earlier groups and successes, and demonstrations.

Only the surviving history is read: trajectories that an abandoned version sampled, and their groups, are left out. So
are groups that lost content to retention.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, Table, exists, false, or_, select, true

from ...records import (
    SCORED_STATUSES,
    SUCCESS_RETURN,
    GroupState,
    GroupSummary,
    ScoredGroup,
    Source,
    Status,
    Trajectory,
    is_success,
)
from ..database import Database
from ..database_errors import retried
from ..schema import among, batch_group, no_of, policy_version, rollout_group, succeeded, train_batch, trajectory
from ..schema import task as task_table
from .conditions import of_run, surviving, training
from .rewards import OF_OWN, load_scored, load_scored_trajectories, own

REUSABLE_STATES = frozenset(
    {GroupState.READY, GroupState.FILTERED, GroupState.LEASED, GroupState.CONSUMED, GroupState.EXPIRED}
)
"""The states of a group that was scored with at least two members."""
P = ParamSpec("P")
T = TypeVar("T")
_member = trajectory.alias("member")


@dataclass(eq=False)
class RunReader:
    """Reads the surviving history of one run: without the trajectories that a version sampled which a resume abandoned.

    A read is retried while the database is locked or away.
    """

    run: str
    database: Database
    _: KW_ONLY
    texts: bool = False
    """Whether loaded steps have their observation texts."""
    encode: Callable[[ScoredGroup], ScoredGroup] = lambda scored: scored
    """Adds tokens to demonstrations."""

    def groups(
        self,
        *,
        limit: int,
        task: str | None = None,
        states: Collection[GroupState] = REUSABLE_STATES,
        min_update: int | None = None,
    ) -> list[GroupSummary]:
        """Return at most ``limit`` scored training groups of the run, newest first, without their trajectories.

        Args:
            task: only groups of the task with this id.
            states: only groups in these states; by default ready, filtered, leased, consumed and expired.
            min_update: only groups that this update or a later one consumed.
        """
        consumed = _consumed(self.run)
        statement = (
            select(
                rollout_group.c.id,
                task_table.c.id.label("task_id"),
                rollout_group.c.state,
                rollout_group.c.score_no,
                consumed.c.update_no,
            )
            .join(task_table, task_table.c.no == rollout_group.c.task_no)
            .join(consumed, consumed.c.group_no == rollout_group.c.no, isouter=True)
            .where(*_scored_groups(self.run, states))
            .order_by(rollout_group.c.score_no.desc())
            .limit(limit)
        )
        if task is not None:
            statement = statement.where(rollout_group.c.task_no == no_of(task_table, task))
        if min_update is not None:
            statement = statement.where(consumed.c.update_no >= min_update)
        return read_retried(self.database, _summaries, statement)

    def successes(self, task: str, *, min_return: float, limit: int) -> list[str]:
        """Return the ids of the newest trajectories of a task that succeeded (``records.is_success``).

        Without a verdict of the environment, the shaped return must be at least ``min_return``. The groups of these
        trajectories may have any state that ``groups`` returns: trained on or not.
        """
        columns = (trajectory.c.id, trajectory.c.status, trajectory.c.success, trajectory.c.reward, own.c.total)
        statement = (
            select(*columns)
            .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
            .join(own, OF_OWN, isouter=True)
            .where(
                *_scored_groups(self.run, REUSABLE_STATES),
                rollout_group.c.task_no == no_of(task_table, task),
                trajectory.c.source == Source.POLICY.value,
                _has_return(),
                or_(trajectory.c.success.is_(None), trajectory.c.success == true()),
            )
            .order_by(rollout_group.c.score_no.desc(), trajectory.c.member)
        )

        def newest(conn: Connection) -> list[str]:
            rows = conn.execute(statement)
            found = (row.id for row in rows if is_success(row.success, Status(row.status), _total(row), min_return))
            return list(islice(found, limit))

        return read_retried(self.database, newest)

    def demonstrations(
        self,
        *,
        limit: int,
        min_return: float = SUCCESS_RETURN,
        run: str | None = None,
        environment: str | None = None,
        task: str | None = None,
    ) -> list[str]:
        """Return the ids of the newest completed and successful trajectories of source ``expert``, on tasks of the
        training split.

        Args:
            min_return: return of the environment from which an episode without a verdict is a success.
            run: only trajectories of this run; by default, of any run in the store.
            environment: only trajectories of the environment with this id.
            task: only trajectories of the task with this id.
        """
        statement = (
            select(trajectory.c.id)
            .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
            .join(task_table, task_table.c.no == rollout_group.c.task_no)
            .where(
                trajectory.c.source == Source.EXPERT.value,
                trajectory.c.status == Status.COMPLETED.value,
                succeeded(min_return),
                trajectory.c.abandoned == false(),
                trajectory.c.pruned_at.is_(None),
                task_table.c.split == "train",
            )
            .order_by(trajectory.c.created_at.desc(), trajectory.c.no.desc())
            .limit(limit)
        )
        if run is not None:
            statement = statement.where(of_run(trajectory, run))
        if environment is not None:
            statement = statement.where(trajectory.c.env_id == environment)
        if task is not None:
            statement = statement.where(task_table.c.id == task)
        return read_retried(self.database, lambda conn: list(conn.execute(statement).scalars()))

    def load_demonstrations(self, trajectories: Sequence[str]) -> list[ScoredGroup]:
        """Return the groups of these trajectories with no other members, encoded; groups without a member are left out.

        Trajectories that are longer than the context of the run are left out: ``encode`` drops them.

        Raises:
            StepCorrupt: stored content was altered.
            TurnwiseError: a trajectory cannot be encoded.
        """
        both = select(trajectory.c.id, rollout_group.c.id.label("group_id"))
        which = both.join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        rows = read_retried(self.database, among, which, trajectory.c.id, trajectories)
        owners = {row.id: row.group_id for row in rows}
        groups = list(dict.fromkeys(owners[name] for name in trajectories if name in owners))
        stored = retried(lambda: load_scored(self.database, groups, texts=True), self.database.retry_s)
        wanted = set(trajectories)
        encoded = [self.encode(_with_members(one, wanted)) for one in stored]
        return [one for one in encoded if one.group.trajectories]

    def load(self, groups: Sequence[str]) -> list[ScoredGroup]:
        """Return groups with tokens and shaped rewards, in the given order.

        Groups that a resume abandoned, and those of other runs, are left out. Raises StepCorrupt.
        """
        known = self._surviving(rollout_group, groups)
        return retried(lambda: load_scored(self.database, known, texts=self.texts), self.database.retry_s)

    def load_trajectories(self, trajectories: Sequence[str]) -> list[tuple[Trajectory, Sequence[float]]]:
        """Return trajectories with tokens, each with its shaped rewards per turn, in the given order.

        Trajectories that a resume abandoned, and those of other runs, are left out. Raises StepCorrupt.
        """
        known = self._surviving(trajectory, trajectories)
        return retried(lambda: load_scored_trajectories(self.database, known, texts=self.texts), self.database.retry_s)

    def _surviving(self, table: Table, names: Sequence[str]) -> list[str]:
        """Return the ids of rows that are in the surviving history of the run, in the given order."""
        which = select(table.c.id).where(surviving(table, self.run))
        kept = {name for (name,) in read_retried(self.database, among, which, table.c.id, names)}
        return [name for name in names if name in kept]


def read_retried(
    database: Database, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of a query, which is retried while the database is locked or away."""

    def once() -> T:
        with database.read() as conn:
            return query(conn, *args, **kwargs)

    return retried(once, database.retry_s)


def _with_members(scored: ScoredGroup, names: Collection[str]) -> ScoredGroup:
    """Return the group with those members only whose ids are among ``names``."""
    kept = [
        (one, turns) for one, turns in zip(scored.group.trajectories, scored.rewards, strict=True) if one.id in names
    ]
    members = tuple(one for one, _ in kept)
    return replace(scored, group=replace(scored.group, trajectories=members), rewards=[turns for _, turns in kept])


def _summaries(conn: Connection, statement: Select[Any]) -> list[GroupSummary]:
    rows = conn.execute(statement).all()
    members = _members(conn, [row.id for row in rows])
    return [
        GroupSummary(
            id=row.id,
            task=row.task_id,
            state=GroupState(row.state),
            score_number=row.score_no,
            update=row.update_no,
            oldest_policy=min((one.update_no for one in members[row.id] if one.update_no is not None), default=None),
            returns=[_total(one) for one in members[row.id]],
        )
        for row in rows
    ]


def _consumed(run: str) -> Any:
    """Return a subquery: the groups that surviving updates consumed, with the number of the update."""
    same = (train_batch.c.run_no == batch_group.c.run_no) & (train_batch.c.version_id == batch_group.c.version_id)
    return (
        select(batch_group.c.group_no, train_batch.c.update_no)
        .join(train_batch, same)
        .where(surviving(batch_group, run), batch_group.c.fresh == true())
        .subquery()
    )


def _scored_groups(run: str, states: Collection[GroupState]) -> list[ColumnElement[bool]]:
    return [
        training(rollout_group, run),
        rollout_group.c.abandoned == false(),
        rollout_group.c.score_no.is_not(None),
        rollout_group.c.state.in_([state.value for state in states]),
        ~exists(select(1).where(_member.c.group_no == rollout_group.c.no, _member.c.pruned_at.is_not(None))),
    ]


def _has_return() -> ColumnElement[bool]:
    """Return whether a trajectory ended with a reward that no reward shaper failed to score."""
    ended = trajectory.c.status.in_([status.value for status in SCORED_STATUSES])
    return ended & (own.c.trajectory_no.is_(None) | own.c.total.is_not(None))


def _members(conn: Connection, groups: Sequence[str]) -> dict[str, list[Any]]:
    """Return the scored members of each group: rewards, and the update number of their oldest policy version."""
    sampled_by = (policy_version.c.run_no == trajectory.c.run_no) & (policy_version.c.id == trajectory.c.min_version)
    statement = (
        select(rollout_group.c.id.label("group_id"), trajectory.c.reward, own.c.total, policy_version.c.update_no)
        .join(rollout_group, rollout_group.c.no == trajectory.c.group_no)
        .join(own, OF_OWN, isouter=True)
        .join(policy_version, sampled_by, isouter=True)
        .where(_has_return())
        .order_by(trajectory.c.group_no, trajectory.c.member)
    )
    found: dict[str, list[Any]] = defaultdict(list)
    for row in among(conn, statement, rollout_group.c.id, groups):
        found[row.group_id].append(row)
    return found


def _total(row: Any) -> float:
    return float(row.reward if row.total is None else row.total)
