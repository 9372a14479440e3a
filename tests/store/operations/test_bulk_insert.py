"""Rows inserted in bulk: equal on both engines, whether new, repeated or in part repeated; errors keep their kind."""

import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import DBAPIError
from turnwise.store.database import Database
from turnwise.store.errors import StoreUnavailable
from turnwise.store.operations.steps import Append, append
from turnwise.store.queries import load_trajectory
from turnwise.store.schema import step
from turnwise.tests.store.making import call, create_run, group, trajectory, turn

AWKWARD = "a\tb\\N \n\\. \"'\r ü \U0001f600 \\x00"
"""Characters that COPY escapes."""


@pytest.fixture
def running(database: Database) -> Database:
    """Return a store with the running trajectory ``t``."""
    create_run(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    return database


@pytest.fixture
def statements(running: Database) -> list[str]:
    found: list[str] = []
    event.listen(running.engine, "before_cursor_execute", lambda _c, _u, statement, *_: found.append(statement))
    return found


def test_every_character_is_stored_as_it_is(running: Database) -> None:
    call(running, "append", trajectory="t", **turn(0, text=AWKWARD))
    (stored,) = load_trajectory(running, "t").steps
    assert stored.observation == AWKWARD
    assert stored.reward_parts == {"shape": 0.5}


def test_a_batch_with_a_repeated_row_inserts_the_others(running: Database, statements: list[str]) -> None:
    call(running, "append", trajectory="t", **turn(0))
    with running.transaction() as tx:
        append.run(tx, [Append(trajectory="t", rows=turn(index)["rows"]) for index in range(3)])
    assert [one.index for one in load_trajectory(running, "t").steps] == [0, 1, 2]
    inserts = [one for one in statements if one.startswith("INSERT INTO step ")]
    assert len(inserts) == (2 if running.engine.dialect.name == "sqlite" else 1), (
        "only the repeated batch, by COPY first"
    )


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_row_that_the_table_rejects_is_an_error_of_the_database(running: Database) -> None:
    rows = turn(0)["rows"]
    rows.steps[0] = ("first", *rows.steps[0][1:])
    with pytest.raises(DBAPIError, match="first"), running.transaction() as tx:
        append.run(tx, [Append(trajectory="t", rows=rows)])
    with running.read() as conn:
        assert conn.execute(select(step.c.idx)).scalars().all() == []


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_lost_connection_is_an_unavailable_store_and_the_next_write_succeeds(running: Database) -> None:

    def interrupted() -> None:
        with running.transaction() as tx:
            own = tx.conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
            with running.engine.connect() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": own})
            append.run(tx, [Append(trajectory="t", rows=turn(0)["rows"])])

    with pytest.raises(StoreUnavailable):
        interrupted()
    call(running, "append", trajectory="t", **turn(0))
    assert len(load_trajectory(running, "t").steps) == 1
