"""A connection to PostgreSQL is tested before its use only if it was idle, and keeps no plan while its tables grow."""

from collections.abc import Iterator
from typing import Any

import pytest
from turnwise.store.database import Database, open_database
from turnwise.store.operations.transaction import numbers_of
from turnwise.store.queries import list_runs
from turnwise.store.schema import trajectory
from turnwise.tests.store.postgres import Server


@pytest.fixture
def name(server: Server, template: str) -> str:
    return server.create(template)


@pytest.fixture
def remote(server: Server, name: str) -> Iterator[Database]:
    opened = open_database(server.url(name))
    yield opened
    opened.close()


@pytest.fixture
def pings(remote: Database, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []
    ping = remote.engine.dialect.do_ping

    def noted(connection: Any) -> bool:
        found.append(connection)
        return ping(connection)

    monkeypatch.setattr(remote.engine.dialect, "do_ping", noted)
    return found


def runs(database: Database) -> int:
    with database.read() as conn:
        return len(list_runs(conn))


def test_an_idle_connection_that_the_server_ended_is_replaced(
    remote: Database, server: Server, name: str, pings: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs(remote) == 0
    server.drop_connections(name)
    monkeypatch.setattr("turnwise.store.database.PING_AFTER_S", 0.0)
    assert runs(remote) == 0
    assert len(pings) == 1


def test_a_connection_in_use_is_not_tested(remote: Database, pings: list[object]) -> None:
    for _ in range(3):
        assert runs(remote) == 0
    assert pings == []


def test_a_statement_is_planned_for_the_present_size_of_its_tables(remote: Database) -> None:
    """A kept plan of a small table, which is best read whole, would stay in use when the table is large."""
    prepared = "SELECT statement, sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements GROUP BY statement"
    with remote.transaction() as tx:
        for _ in range(20):
            numbers_of(tx.conn, trajectory, [])
        [(statement, planned, kept)] = tx.conn.exec_driver_sql(prepared)
    assert "FROM trajectory" in statement
    assert (planned > 6, kept) == (True, 0)
