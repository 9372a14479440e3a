"""Every test that takes ``url`` or ``database`` runs on SQLite and on a real PostgreSQL server, or fails.

Those that are marked ``sqlite_first`` meet PostgreSQL in the soak only.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.store.database import Database, open_database, upgrade
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.store.making import sqlite_store
from turnwise.tests.store.postgres import Server

sqlite_first = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)], indirect=True
)
"""Marks a test whose SQL is the same on either database: per commit on SQLite, in the soak on PostgreSQL as well."""


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def template(server: Server) -> str:
    """Return a migrated database to copy, which is faster than one migration per test."""
    name = server.create()
    upgrade(server.url(name))
    return name


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a store that does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/turnwise.db"
    server: Server = request.getfixturevalue("server")
    return f"{server.url(server.create())}&blobs={tmp_path}/turnwise.blobs"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a new store."""
    return new_store(request, tmp_path)


def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new store on the database that the request's parameter names."""
    if request.param == "sqlite":
        return sqlite_store(tmp_path)
    server: Server = request.getfixturevalue("server")
    return f"{server.url(server.create(request.getfixturevalue('template')))}&blobs={tmp_path}/turnwise.blobs"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = open_database(url)
    yield opened
    opened.close()


@pytest.fixture
def writer(database: Database) -> Iterator[CommitQueue]:
    made = CommitQueue(database, window_ms=1)
    yield made
    made.close()
