"""What became of groups and their members: the update that trained on each, or why none did."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, false, func, select, true

from ...records import SCORED_STATUSES, GroupState, Purpose, Task
from ..operations.group_states import IMPORTED, RUN_ENDED
from ..schema import among, batch_group, batch_item, rollout_group, train_batch, trajectory
from .conditions import of_run, surviving
from .lineage import TrajectoryUse
from .lists import GroupRow, closed_between
from .load import load_group_heads
from .rewards import OF_OWN, own
from .run_details import INTERRUPTED, update_times
from .updates import Updates

WAITING_UPDATES = 8
FLAT_RANGE = 1e-6
"""Returns that differ by less are equal."""
_SAME_BATCH = and_(train_batch.c.run_no == batch_item.c.run_no, train_batch.c.version_id == batch_item.c.version_id)


@dataclass(frozen=True, slots=True)
class MemberFate:
    """The latest attempt of a member of a group."""

    trajectory: str
    member: int
    attempt: int
    status: str
    success: bool | None
    reward: float
    """Return by the rewards of the environment."""
    total: float
    """Return that the run was trained with: shaped, or that of the environment."""
    turns: int
    tokens: int
    error: str
    tokens_trained: int
    """In the update that consumed the group; 0 if none did, or if every token was swept."""
    advantage: float | None
    """Mean over the trained tokens; None without any."""
    turn_advantages: Mapping[str, float]
    """Index of a turn -> mean over its trained tokens."""
    branched_from: str | None
    branched_at: int | None
    """As in ``Trajectory``."""


@dataclass(frozen=True, slots=True)
class GroupFate:
    """A group with its members, and what became of it."""

    group: GroupRow
    task: Task
    update: int | None
    """Number of the surviving update that consumed the group."""
    fate: str
    """One line: the update, or why no update consumed it."""
    totals: Sequence[float]
    """Returns of the scored members."""
    is_flat: bool
    """Whether the group is for training, at least two members were scored, and all their returns are equal."""
    members: Sequence[MemberFate]


def group_fates(conn: Connection, groups: Sequence[GroupRow], run_status: str) -> list[GroupFate]:
    """Return the fate of each of ``groups``, which belong to runs of this status, in the given order."""
    names = [group.id for group in groups]
    tasks = {head.id: head.task for head in load_group_heads(conn, names)}
    updates, members = _updates(conn, names), _members(conn, names)
    found = []
    for group in groups:
        update, of_group = updates.get(group.id), members[group.id]
        totals = [one.total for one in of_group if one.status in SCORED_STATUSES]
        is_flat = group.purpose == Purpose.TRAIN.value and len(totals) > 1 and max(totals) - min(totals) < FLAT_RANGE
        fate = group_fate(group, update, run_status, swept=sum(not one.tokens_trained for one in of_group))
        found.append(GroupFate(group, tasks[group.id], update, fate, totals, is_flat, of_group))
    return found


def group_fate(group: GroupRow, update: int | None, run_status: str, *, swept: int = 0) -> str:
    """Return what became of a group in one line.

    Args:
        update: the surviving update that consumed it.
        swept: members of which that update trained on no token.
    """
    state, reason = GroupState(group.state), f": {group.reason}" if group.reason else ""
    if group.reason == IMPORTED:
        return "imported as a demonstration, which `behavior_cloning` reads"
    if group.purpose == Purpose.EVAL.value:
        return "evaluation, which no update trains on"
    if update is not None:
        return f"consumed in update {update}" + (f", without {swept} of its members" if swept else "")
    if state in (GroupState.FILTERED, GroupState.EXPIRED):
        return f"{state.value}{reason}"
    if state is GroupState.FAILED:
        return "cut off: the run ended while it was played" if group.reason == RUN_ENDED else f"failed{reason}"
    if run_status == INTERRUPTED:
        was_open = state is GroupState.OPEN
        return "was played when the run was interrupted" if was_open else "waits for a resume of the interrupted run"
    if run_status != "running":
        return f"not needed: it is {state.value}, and the run is {run_status}"
    return {"open": "is played now", "scoring": "is scored now", "ready": "waits for the learner"}.get(
        state.value, "the learner trains on it now"
    )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Training groups that closed between two updates and were not trained on, for one reason."""

    state: str
    reason: str
    groups: int
    example: str
    """Id of one of them."""


def left_out(conn: Connection, run: str, update: int) -> list[LeftOut]:
    """Return the groups that were filtered, expired or failed since the update before ``update``, the most first."""
    span = since_update_before(conn, run, update)
    if span is None:
        return []
    columns = rollout_group.c.state, rollout_group.c.reason
    states = [state.value for state in (GroupState.FILTERED, GroupState.EXPIRED, GroupState.FAILED)]
    count = func.count().label("groups")
    which = (
        select(*columns, count, func.max(rollout_group.c.id))
        .where(surviving(rollout_group, run), rollout_group.c.purpose == Purpose.TRAIN.value)
        .where(rollout_group.c.state.in_(states), *closed_between(*span))
        .group_by(*columns)
        .order_by(count.desc(), *columns)
    )
    return [LeftOut(*row) for row in conn.execute(which)]


def since_update_before(conn: Connection, run: str, update: int) -> tuple[datetime | None, datetime] | None:
    """Return when the update before ``update`` was recorded, None for the first one, and when ``update`` was.

    None if the surviving history has no such update.
    """
    times = update_times(conn, run, Updates(update - 1, update))
    return (times.get(update - 1), times[update]) if update in times else None


def waiting(conn: Connection, run: str, update: int) -> int:
    """Return how many groups had closed when ``update`` was recorded, and were trained on by one of the next updates.

    The next ``WAITING_UPDATES`` updates are looked through: a group that waits longer expires.
    """
    times = update_times(conn, run, Updates(update, update))
    if update not in times:
        return 0
    following = select(train_batch.c.version_id).where(
        surviving(train_batch, run), train_batch.c.update_no.between(update + 1, update + WAITING_UPDATES)
    )
    which = (
        select(func.count().filter(batch_group.c.fresh == true()))
        .select_from(batch_group)
        .join(rollout_group, rollout_group.c.no == batch_group.c.group_no)
        .where(of_run(batch_group, run), batch_group.c.version_id.in_(list(conn.execute(following).scalars())))
        .where(rollout_group.c.closed_at <= times[update])
    )
    return int(conn.execute(which).scalar_one())


def training_of(group: GroupRow, uses: Sequence[TrajectoryUse], run_status: str) -> str:
    """Return whether a trajectory of ``group`` was trained on, and if not, why."""
    names = [f"update {use.update} of run {use.run}" for use in uses if not use.abandoned]
    if names:
        return ", ".join(names)
    state, reason = GroupState(group.state), f": {group.reason}" if group.reason else ""
    if group.reason == IMPORTED:
        return "no: it is imported, as a demonstration, which `behavior_cloning` reads"
    if group.purpose == Purpose.EVAL.value:
        return "no: it is an evaluation, which no update trains on"
    if state is GroupState.CONSUMED:
        return "no: an update consumed its group, and trained on no token of this trajectory"
    if state in (GroupState.FILTERED, GroupState.EXPIRED):
        return f"no: its group {'was filtered' if state is GroupState.FILTERED else 'expired'}{reason}"
    if state is GroupState.FAILED:
        return (
            "no: the run ended while its group was played"
            if group.reason == RUN_ENDED
            else f"no: its group failed{reason}"
        )
    if run_status == INTERRUPTED:
        return f"not yet: its group is {state.value}, and the run is interrupted"
    if run_status != "running":
        return f"no: its group is {state.value}, and the run is {run_status}"
    return f"not yet: its group is {state.value}"


def _updates(conn: Connection, groups: Sequence[str]) -> dict[str, int]:
    """Return the surviving update that consumed each group, by id."""
    same = and_(train_batch.c.run_no == batch_group.c.run_no, train_batch.c.version_id == batch_group.c.version_id)
    which = (
        select(rollout_group.c.id, train_batch.c.update_no)
        .join(batch_group, batch_group.c.group_no == rollout_group.c.no)
        .join(train_batch, same)
        .where(batch_group.c.fresh == true(), batch_group.c.abandoned == false())
    )
    return {row.id: row.update_no for row in among(conn, which, rollout_group.c.id, groups)}


def _members(conn: Connection, groups: Sequence[str]) -> Mapping[str, list[MemberFate]]:
    """Return the latest attempt of each member of each group."""
    columns = (
        *("member", "attempt", "status", "success", "reward", "n_steps", "n_tokens", "error", "stop_reason"),
        "branched_at",
    )
    of_batch = and_(
        batch_item.c.trajectory_no == trajectory.c.no, batch_item.c.fresh == true(), batch_item.c.abandoned == false()
    )
    parent = trajectory.alias("parent")
    which = (
        select(
            rollout_group.c.id.label("group"),
            trajectory.c.id,
            parent.c.id.label("parent_id"),
            *(trajectory.c[name] for name in columns),
            own.c.total,
            batch_item.c.tokens_trained,
            batch_item.c.mean_advantage,
            batch_item.c.turn_advantages,
        )
        .join(trajectory, trajectory.c.group_no == rollout_group.c.no)
        .join(parent, parent.c.no == trajectory.c.branched_from, isouter=True)
        .join(own, OF_OWN, isouter=True)
        .join(batch_item, of_batch, isouter=True)
        .order_by(trajectory.c.group_no, trajectory.c.member, trajectory.c.attempt)
    )
    latest: dict[str, dict[int, Any]] = defaultdict(dict)
    for row in among(conn, which, rollout_group.c.id, groups):
        latest[row.group][row.member] = row
    return defaultdict(list, {group: [_member(row) for row in rows.values()] for group, rows in latest.items()})


def _member(row: Any) -> MemberFate:
    return MemberFate(
        trajectory=row.id,
        member=row.member,
        attempt=row.attempt,
        status=row.status,
        success=row.success,
        reward=row.reward,
        total=row.reward if row.total is None else row.total,
        turns=row.n_steps,
        tokens=row.n_tokens,
        error=row.error or row.stop_reason,
        tokens_trained=row.tokens_trained or 0,
        advantage=row.mean_advantage if row.tokens_trained else None,
        turn_advantages=row.turn_advantages if row.tokens_trained else {},
        branched_from=row.parent_id,
        branched_at=row.branched_at,
    )
