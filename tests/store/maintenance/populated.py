"""A store with a row in every table and a value in every column."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from sqlalchemy import select, update
from turnwise.records import GroupState, Limit, Purpose, Status, Trajectory
from turnwise.store.content.blobs import PNG, NewBlob, digest
from turnwise.store.content.rows import by_idx, rows_of
from turnwise.store.database import Database
from turnwise.store.maintenance.search_index import update_index
from turnwise.store.operations import BatchItem, Rewards
from turnwise.store.operations.rewards import create_reward_set
from turnwise.store.schema import step
from turnwise.tests.store.content.sealing import reseal
from turnwise.tests.store.making import (
    call,
    create_run,
    group,
    play,
    play_group,
    play_scored,
    records,
    train,
    trajectory,
    turn,
)

SCREEN = b"\x89PNG\r\n\x1a\n" + b"screen" * 20
LARGE_SCREEN = b"\x89PNG\r\n\x1a\n" + b"large" * 8_000
"""Above the limit of content in the database."""


def populate(database: Database) -> None:
    """Write two runs: updates that survive and that a resume abandoned, and groups in every state."""
    create_run(database, "parent")
    call(database, "add_version", run="parent", update=0, parent=None)
    call(database, "finish_run", run="parent", status="finished")
    create_run(database, parent="parent", parent_version=0)
    assert call(database, "add_version", run="r", update=0, parent=None) == 0
    play_illustrated(database, "a")
    play_scored(database, "b", 0, [1.0, 0.0])
    first = train(database, ["a", "b"], 1, 0)
    call(database, "set_checkpoint", run="r", version=first, path="checkpoints/1")
    create_run(database, config={"seed": 1, "max_steps": 9})
    call(database, "add_metrics", run="r", update=1, metrics={"success": 0.5}, kind="eval")
    play_group(database, "later", version=first)
    second = train(database, ["later"], 2, first)
    assert second == 2
    call(database, "add_metrics", run="r", update=2, metrics={"success": 0.6}, kind="eval")
    call(database, "rewind", run="r", version=first)
    play_group(database, "c", version=first)
    acknowledge(database, ["c"], 2, first)
    play_group(database, "leased", version=first)
    call(database, "lease_groups", run="r", owner="r/learner", count=1, timeout_s=60)
    play_group(database, "ready", version=first)
    call(database, "open_group", group=group("failed"))
    play(database, "failed-0", "failed", status=Status.ENV_ERROR)
    call(database, "close_group", group="failed", state=GroupState.FAILED, reason="the environment failed")
    call(database, "open_group", group=group("eval", purpose=Purpose.EVAL))
    play(database, "eval-0", "eval", version=first)
    call(database, "close_group", group="eval", state=GroupState.FILTERED, reason="evaluation")
    call(database, "open_group", group=group("open"))
    call(database, "start_trajectory", trajectory=trajectory("open-0", "open"))
    call(database, "append", trajectory="open-0", **turn(0, first))
    call(database, "start_trajectory", trajectory=trajectory("open-1", "open", member=1))
    call(database, "open_group", group=group("empty"))
    with database.transaction() as tx:
        judged = create_reward_set(tx, run="r", name="judge", component="llm_judge", options={"model": "m"})
    call(database, "add_rewards", reward_set=judged, rewards=[Rewards("b-0", [0.5], [{"score": 0.5}])])
    _play_another_run(database)
    _tell_turns_apart(database)
    assert update_index(database)


def _play_another_run(database: Database) -> None:
    """Write rows of every table into another run."""
    create_run(database, "s")
    assert call(database, "add_version", run="s", update=0, parent=None) == 0
    play_scored(database, "s-scored", 0, [2.0, 0.0], run="s")
    assert train(database, ["s-scored"], 1, 0, run="s") == 1
    call(database, "add_metrics", run="s", update=1, metrics={"success": 0.7}, kind="eval")
    play_group(database, "s-ready", version=1, run="s")
    with database.transaction() as tx:
        judged = create_reward_set(tx, run="s", name="judge", component="llm_judge", options={"model": "m"})
    call(database, "add_rewards", reward_set=judged, rewards=[Rewards("s-scored-0", [0.25], [{"score": 0.25}])])
    call(database, "finish_run", run="s", status="stopped", error="stopped by hand")


def acknowledge(database: Database, groups: Sequence[str], update_no: int, parent: int) -> None:
    """Lease ``groups`` and consume them with everything that training again needs."""
    names = call(database, "lease_groups", run="r", owner="learner", count=len(groups), timeout_s=60)
    items = [
        BatchItem(f"{name}-{member}", 4, 0, 0.5, {0: 0.5}, detail=b"\x01\x02") for name in names for member in range(2)
    ]
    call(
        database,
        "acknowledge",
        run="r",
        owner="learner",
        groups=names,
        update=update_no,
        parent=parent,
        items=items,
        metrics={"loss": 0.1},
        recipe={"seed": 7},
        weights_hash="77" * 32,
    )


def play_illustrated(database: Database, name: str) -> None:
    """Write a group of two members: one with images, long texts and a partial turn, and a branch of it."""
    call(database, "open_group", group=group(name))
    call(database, "start_trajectory", trajectory=trajectory(f"{name}-0", name))
    images = {digest(content): content for content in (SCREEN, LARGE_SCREEN)}
    for index in range(2):
        steps, messages = records(index, text="a long page " * 400 if index else None)
        kept = digest(LARGE_SCREEN)
        steps = [
            replace(one, images=tuple(images), screenshot=kept, agent="one", cut_by=Limit.CONTEXT) for one in steps
        ]
        messages = [replace(one, images=tuple(images)[:1], agent="one") for one in messages]
        call(database, "append", trajectory=f"{name}-0", rows=rows_of(steps, messages, images))
    _, (seen, thought) = records(2)
    call(database, "append", trajectory=f"{name}-0", rows=rows_of([], [seen, thought]))
    call(
        database,
        "finish_trajectory",
        trajectory=f"{name}-0",
        status=Status.TRUNCATED,
        reward=1.0,
        success=False,
        error="none",
        stop_reason="2 turns played",
        reached=Limit.TURNS,
        final_observation_hash="ee" * 16,
        final_observation="the end " * 400,
        final_images=by_idx([NewBlob.of(SCREEN, PNG)], NewBlob.of(LARGE_SCREEN, PNG)),
        extras={"tampering": ["none"]},
    )
    branch = trajectory(f"{name}-1", name, 1)
    _branch(database, branch, f"{name}-0")
    call(database, "close_group", group=name, state=GroupState.READY)


def _branch(database: Database, member: Trajectory, parent: str) -> None:
    call(database, "start_trajectory", trajectory=replace(member, branched_from=parent, branched_at=1))
    call(database, "append", trajectory=member.id, **turn(0))
    call(
        database,
        "finish_trajectory",
        trajectory=member.id,
        status=Status.COMPLETED,
        reward=2.0,
        success=True,
        final_observation="done",
    )


def _tell_turns_apart(database: Database) -> None:
    """Give each turn its own time, so that an exchange of two turns changes them, and compute the digests again."""
    with database.transaction() as tx:
        for no, idx, at in tx.conn.execute(select(step.c.trajectory_no, step.c.idx, step.c.created_at)).all():
            key = (step.c.trajectory_no == no) & (step.c.idx == idx)
            tx.conn.execute(update(step).where(key).values(created_at=at + timedelta(minutes=no)))
    reseal(database)
