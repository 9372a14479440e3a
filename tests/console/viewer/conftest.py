"""A store with runs in every state, and the viewer of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
import uvicorn
from starlette.testclient import TestClient
from turnwise.console.viewer.application import application
from turnwise.console.viewer.security import LOOPBACK, Door
from turnwise.console.viewer.server import configured, listening
from turnwise.store.database import Database, open_database
from turnwise.tests.store.maintenance.populated import populate
from turnwise.tests.store.making import sqlite_store

ADDRESS = "http://127.0.0.1:8600"
Opened = Callable[..., TestClient]


def client_of(database: Database, door: Door | None = None) -> TestClient:
    """Return a client of the viewer of a store, which does not follow redirects."""
    app = application(database, door or Door(LOOPBACK, None))
    return TestClient(app, base_url=ADDRESS, follow_redirects=False, raise_server_exceptions=True)


@pytest.fixture(scope="package")
def populated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a store with a row in every table."""
    url = sqlite_store(tmp_path_factory.mktemp("populated"))
    database = open_database(url)
    populate(database)
    database.close()
    return url


@pytest.fixture(scope="package")
def viewed(populated: str) -> Iterator[Database]:
    """That store, opened as the command opens it."""
    database = open_database(populated, read_only=True)
    yield database
    database.close()


@pytest.fixture(scope="package")
def client(viewed: Database) -> Iterator[TestClient]:
    with client_of(viewed) as made:  # one event loop for all requests
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Database]:
    """A new store that the test writes to."""
    database = open_database(sqlite_store(tmp_path))
    yield database
    database.close()


@contextmanager
def serving(database: Database) -> Iterator[str]:
    """Run the viewer of a store, and return its address."""
    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(configured(application(database, Door(LOOPBACK, None))))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=20)


@pytest.fixture
def address(viewed: Database) -> Iterator[str]:
    """The address of a running viewer."""
    with serving(viewed) as found:
        yield found
