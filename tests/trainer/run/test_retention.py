"""A run applies its retention policy in the background, and survives a collection that fails."""

import asyncio
import logging
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select
from turnwise.store.database import Database, open_database
from turnwise.store.errors import StoreFull
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.maintenance.policy import RetentionPolicy
from turnwise.store.run_store import RunStore
from turnwise.store.schema import trajectory
from turnwise.store.writing.client import StoreClient
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import call, play_group, sqlite_store, start, train
from turnwise.trainer.run.played_groups import Retention

POLICY = RetentionPolicy(keep_versions=1, keep_successes=False)


def pruned(database: Database) -> int:
    with database.read() as conn:
        return conn.execute(select(func.count()).where(trajectory.c.pruned_at.is_not(None))).scalar_one()


async def collect(database: Database, policy: RetentionPolicy) -> None:
    with closing(CommitQueue(database)) as writer:
        retention = Retention(RunStore("r", database, StoreClient(writer.run)), policy)
        retention.start()
        retention.start()
        await retention.finish()


def test_a_policy_is_applied_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(open_database(sqlite_store(tmp_path))) as database:
        start(database)
        for number in range(1, 4):
            play_group(database, f"g{number}", version=number - 1)
            train(database, [f"g{number}"], number, number - 1)
        call(database, "set_checkpoint", run="r", version=3, path="checkpoints/3")
        asyncio.run(collect(database, RetentionPolicy()))
        assert pruned(database) == 0
        asyncio.run(collect(database, POLICY))
        assert pruned(database) == 4
        assert list(check_store(database, content=True)) == []

        def full(*_: object, **__: object) -> None:
            raise StoreFull("no room")

        monkeypatch.setattr("turnwise.store.run_store.collect", full)
        with caplog.at_level(logging.WARNING):
            asyncio.run(collect(database, POLICY))
        assert "the retention policy was not applied" in caplog.text
