"""PostgreSQL fails a transaction at its commit: it is repeated, and its effect is there once.

The failures are the server's own, raised by a deferred trigger: in the middle of ``COMMIT``.
"""

from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import func, select
from turnwise.store import operations
from turnwise.store.database import Database, open_database
from turnwise.store.queries import versions
from turnwise.store.schema import batch_group, batch_item, step, train_batch
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import double_consumed, group, items, play_group, start, states, turn
from turnwise.tests.store.making import trajectory as new_trajectory
from turnwise.tests.store.postgres import Server

RECOVERY_MAX_S = 30.0
FAILURES = 2
"""Commits in sequence that fail."""
RAISE = "RAISE EXCEPTION 'injected' USING ERRCODE = '{}'"
FAULTS = {
    "serialization failure": RAISE.format("40001"),
    "deadlock": RAISE.format("40P01"),
    "dropped connection": "PERFORM pg_terminate_backend(pg_backend_pid())",
}
TRIGGER = """
CREATE SEQUENCE commits;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('commits') <= {failures} THEN {fault}; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION fail();
"""
"""A sequence keeps its number when the transaction is rolled back."""


@pytest.fixture
def remote(server: Server, template: str) -> Iterator[Database]:
    opened = open_database(server.url(server.create(template)))
    yield opened
    opened.close()


def install(database: Database, table: str, fault: str) -> None:
    with database.transaction() as tx:
        tx.conn.exec_driver_sql(TRIGGER.format(table=table, fault=FAULTS[fault], failures=FAILURES))


def failures(database: Database) -> int:
    """Return how many commits failed."""
    with database.read() as conn:
        return min(FAILURES, int(conn.exec_driver_sql("SELECT last_value FROM commits").scalar_one()))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_batch_that_fails_at_its_commit_is_consumed_once(remote: Database, fault: str) -> None:
    start(remote)
    for name in ("g", "h"):
        play_group(remote, name)
    writer = CommitQueue(remote)
    held = writer.commit(operations.lease_groups.bind(run="r", owner="learner", count=2, timeout_s=60))
    install(remote, "train_batch", fault)
    began = monotonic()
    batch: dict[str, Any] = {
        "owner": "learner",
        "groups": held,
        "update": 1,
        "parent": 0,
        "items": items(held),
        "metrics": {},
    }
    assert writer.commit(operations.acknowledge.bind(run="r", **batch)) == 1
    assert monotonic() - began < RECOVERY_MAX_S
    writer.close()
    assert failures(remote) == FAILURES
    with remote.read() as conn:
        assert list(versions(conn, "r")) == [0, 1]
        assert double_consumed(conn, "r") == []
        counts = [
            conn.execute(select(func.count()).select_from(one)).scalar_one() for one in (train_batch, batch_group)
        ]
        trained = conn.execute(select(batch_item.c.trajectory_no)).scalars().all()
    assert counts == [1, 2]
    assert len(trained) == len(set(trained)) == len(items(held))
    assert states(remote) == {"consumed": 2}


def test_turns_that_fail_at_their_commit_are_stored_once_and_in_order(remote: Database) -> None:
    start(remote)
    play_group(remote, "g")
    writer = CommitQueue(remote)
    writer.commit(operations.open_group.bind(group=group("o")))
    writer.commit(operations.start_trajectory.bind(trajectory=new_trajectory("o-0", "o")))
    install(remote, "step", "serialization failure")
    waiting = [writer.submit(operations.append.bind(trajectory="o-0", **turn(index))) for index in range(4)]
    for one in waiting:
        one.result(RECOVERY_MAX_S)
    writer.close()
    assert failures(remote) == FAILURES
    with remote.read() as conn:
        stored = conn.execute(select(step.c.trajectory_no, step.c.idx).order_by(step.c.trajectory_no, step.c.idx)).all()
    assert [idx for no, idx in stored if no == stored[-1].trajectory_no] == [0, 1, 2, 3]
