"""Create runs, groups and episodes for the tests of the store."""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import EllipsisType
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, and_, func, select, update
from turnwise.records import (
    NO_VERSION,
    Group,
    GroupState,
    Horizon,
    Message,
    Purpose,
    Role,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.store.content.rows import Tally, Written, rows_of
from turnwise.store.database import Database, upgrade
from turnwise.store.operations import OPERATIONS, BatchItem, Rewards
from turnwise.store.queries import group_counts
from turnwise.store.schema import batch_item, metadata, no_of, partial_turn, policy_version, step
from turnwise.store.schema import run as run_table
from turnwise.store.schema import trajectory as trajectory_table

HORIZON = Horizon(max_turns=8, max_tokens_per_turn=8, max_tokens_per_episode=64, max_context=512)


def call(database: Database, name: str, **arguments: Any) -> Any:
    """Run one operation in one transaction."""
    with database.transaction() as tx:
        return OPERATIONS[name](tx, **arguments)


def create_run(database: Database, run: str = "r", **changes: Any) -> None:
    arguments = {"config": {"seed": 1}, "config_hash": "c", "kind": "train", "code_version": "0"} | changes
    arguments.setdefault("driver", uuid4().hex)
    call(database, "create_run", run=run, **arguments)


def start(database: Database) -> None:
    """Create run ``r`` with its first version."""
    create_run(database)
    assert call(database, "add_version", run="r", update=0, parent=None) == 0


def contents(database: Database, without: Mapping[str, Collection[str]] | None = None) -> dict[str, list[str]]:
    """Return every row of every table; ``without`` names columns per table to leave out."""
    skipped = without or {}
    with database.read() as conn:
        return {
            name: sorted(
                repr(row)
                for row in conn.execute(select(*(one for one in table.c if one.name not in skipped.get(name, ()))))
            )
            for name, table in metadata.tables.items()
        }


def task(seed: int = 0) -> Task:
    return Task(f"task-{seed}", "turnwise/TextSite-v0", "1", seed, "train", {"pages": 4})


def group(name: str = "g", run: str = "r", size: int = 2, purpose: Purpose = Purpose.TRAIN, seed: int = 0) -> Group:
    return Group(name, run, task(seed), HORIZON, size, purpose)


def trajectory(name: str, of: str = "g", member: int = 0, attempt: int = 0, run: str = "r") -> Trajectory:
    return Trajectory(name, run, of, member, attempt)


def turn(index: int, version: int = 0, text: str | None = None) -> dict[str, Any]:
    """Return the rows of one turn, as arguments of ``append``."""
    return {"rows": rows_of(*records(index, version, text))}


def tally(turns: int) -> Tally:
    """Return the tally of a player that wrote turns 0 to ``turns - 1``."""
    written = Written()
    for index in range(turns):
        written.add(turn(index)["rows"])
    return written.tally()


def records(index: int, version: int = 0, text: str | None = None) -> tuple[list[Step], list[Message]]:
    """Return the steps and messages of one turn."""
    seen = Message(
        2 * index,
        2 * index - 1 if index else None,
        Role.USER,
        Source.ENV,
        [10 + index, 11, 12],
        [0, 0, 0],
        [math.nan] * 3,
        [NO_VERSION] * 3,
    )
    answer = Message(
        2 * index + 1, 2 * index, Role.ASSISTANT, Source.POLICY, [5, 2], [1, 1], [-0.5, -0.25], [version, version]
    )
    step = Step(
        index,
        f"page {index}" if text is None else text,
        f"{index:032x}",
        f"click {index}",
        0.5,
        {"shape": 0.5},
        False,
        False,
        True,
        f"state-{index}",
        2 * index + 1,
        1.0,
        0.1,
        created_at=datetime(2026, 1, 2, 3, 4, 5, 6, UTC) + timedelta(seconds=index),
    )
    return [step], [seen, answer]


def play(
    database: Database,
    name: str,
    of: str = "g",
    member: int = 0,
    attempt: int = 0,
    turns: int = 2,
    version: int = 0,
    status: Status = Status.COMPLETED,
    run: str = "r",
    success: bool | EllipsisType | None = ...,
) -> None:
    """Write a complete episode; by default, the environment's verdict is that it succeeded if it completed."""
    call(database, "start_trajectory", trajectory=trajectory(name, of, member, attempt, run))
    for index in range(turns):
        call(database, "append", trajectory=name, **turn(index, version))
    call(
        database,
        "finish_trajectory",
        trajectory=name,
        status=status,
        reward=float(turns),
        success=status is Status.COMPLETED if success is ... else success,
        final_observation_hash="ff" * 16,
        final_observation=f"the end of {name}",
    )


def play_group(
    database: Database, name: str, state: GroupState = GroupState.READY, version: int = 0, run: str = "r"
) -> None:
    """Create a closed group of two members, named ``{name}-0`` and ``{name}-1``."""
    call(database, "open_group", group=group(name, run))
    for member in range(2):
        play(database, f"{name}-{member}", name, member, version=version, run=run)
    call(database, "close_group", group=name, state=state)


def play_scored(
    database: Database,
    name: str,
    number: int,
    returns: Sequence[float],
    state: GroupState = GroupState.READY,
    seed: int = 0,
    version: int = 0,
    run: str = "r",
    verdicts: Sequence[bool | None] | None = None,
    status: Status = Status.COMPLETED,
) -> None:
    """Store a scored group of task ``task-{seed}`` with members of one turn, named ``{name}-0`` and so on.

    Args:
        verdicts: the environment's verdict on each member; by default it gives none.
    """
    call(database, "open_group", group=group(name, run, len(returns), seed=seed))
    for member in range(len(returns)):
        verdict = None if verdicts is None else verdicts[member]
        play(database, f"{name}-{member}", name, member, 0, 1, version, status, run, verdict)
    call(database, "close_group", group=name, state=GroupState.SCORING)
    scores = [Rewards(f"{name}-{member}", [total]) for member, total in enumerate(returns)]
    call(database, "score_group", group=name, number=number, state=state, rewards=scores)


def prune(database: Database, name: str) -> None:
    """Remove the content of a trajectory, as retention does."""
    with database.transaction() as tx:
        no = tx.conn.execute(select(no_of(trajectory_table, name))).scalar_one()
        said = ("messages", "messages_blob")
        for table, columns in ((partial_turn, said), (step, ("observation", "observation_blob", *said))):
            tx.conn.execute(update(table).where(table.c.trajectory_no == no).values(dict.fromkeys(columns)))
        tx.conn.execute(update(trajectory_table).where(trajectory_table.c.no == no).values(pruned_at=tx.now))


def items(groups: Sequence[str]) -> list[BatchItem]:
    """Return the batch items of two members of each of ``groups``."""
    return [BatchItem(f"{name}-{member}", 4, 0, 0.5, {0: 0.25, 1: 0.75}) for name in groups for member in range(2)]


def train(
    database: Database,
    groups: Sequence[str],
    update: int,
    parent: int,
    run: str = "r",
    metrics: Mapping[str, Any] | None = None,
) -> int:
    """Lease exactly ``groups``, which are all the ready groups, and acknowledge them."""
    assert call(database, "lease_groups", run=run, owner="learner", count=len(groups), timeout_s=60) == list(groups)
    return int(
        call(
            database,
            "acknowledge",
            run=run,
            owner="learner",
            groups=list(groups),
            update=update,
            parent=parent,
            items=items(groups),
            metrics={"loss": 0.1, **(metrics or {})},
        )
    )


def double_consumed(conn: Connection, run: str) -> list[str]:
    """Return the trajectories that the surviving history consumed twice as fresh: always none."""
    same = and_(policy_version.c.run_no == batch_item.c.run_no, policy_version.c.id == batch_item.c.version_id)
    which = (
        select(trajectory_table.c.id)
        .join(batch_item, batch_item.c.trajectory_no == trajectory_table.c.no)
        .join(policy_version, same)
        .where(batch_item.c.run_no == no_of(run_table, run), batch_item.c.fresh, ~policy_version.c.abandoned)
        .group_by(trajectory_table.c.id)
        .having(func.count() > 1)
    )
    return list(conn.execute(which).scalars())


def states(database: Database) -> dict[str, int]:
    """Return how many training groups of run ``r`` are in each state."""
    with database.read() as conn:
        return {state.value: count for state, count in group_counts(conn, "r").items() if count}


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        upgrade(f"sqlite:///{folder}/turnwise.db")
        return Path(folder, "turnwise.db").read_bytes()


def sqlite_store(folder: Path, name: str = "turnwise.db") -> str:
    """Make a store in ``folder``, unless it has one, and return its URL.

    All these stores have the same id: they are copies of one, which takes a fifth of the time of a migration.
    """
    path = folder / name
    if not path.exists():
        path.write_bytes(_migrated())
    return f"sqlite:///{path}"
