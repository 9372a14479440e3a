"""A store that is opened read-only: the database itself refuses every write."""

import os
from pathlib import Path

import pytest
from sqlalchemy import insert, select
from turnwise.store.database import open_database
from turnwise.store.errors import StoreError, StoreUnusable
from turnwise.store.schema import run, store_setting


def test_the_database_refuses_a_write_and_answers_reads(url: str) -> None:
    database = open_database(url, read_only=True)
    try:
        for _ in range(2):  # a connection of the pool is used again
            with database.read() as conn:
                assert conn.execute(select(run)).all() == []
            with pytest.raises(StoreUnusable), database.transaction() as tx:
                tx.conn.execute(insert(store_setting).values(name="mine", value="1"))
    finally:
        database.close()


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(StoreError, match="is not a file"):
        open_database(f"sqlite:///{tmp_path}/pipe.db", read_only=True)
