"""An error keeps its message across a process boundary; transient database errors are recognized."""

import copy
import sqlite3

import pytest
from sqlalchemy.exc import OperationalError
from turnwise.errors import TurnwiseError
from turnwise.store import errors
from turnwise.store.database import Database
from turnwise.store.database_errors import to_store_error
from turnwise.store.queries import find_run
from turnwise.tests.store.making import create_run

EVERY = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.StoreError)]


@pytest.mark.parametrize("kind", EVERY)
def test_an_error_can_be_sent(kind: type[errors.StoreError]) -> None:
    """``copy`` takes an exception apart and builds it again as a process boundary does."""
    again = copy.copy(kind("what happened"))
    assert isinstance(again, TurnwiseError)
    assert str(again) == "what happened"


def test_a_step_s_number_is_sent_with_it() -> None:
    assert copy.copy(errors.StepCorrupt("altered", 7)).step == 7


@pytest.mark.parametrize(
    ("name", "message", "becomes"),
    [
        ("SQLITE_FULL", "database or disk is full", errors.StoreFull),
        ("SQLITE_IOERR_WRITE", "disk I/O error", errors.StoreFull),
        ("SQLITE_BUSY", "database is locked", errors.StoreUnavailable),
        ("SQLITE_READONLY", "attempt to write a readonly database", errors.StoreUnusable),
        ("SQLITE_ERROR", "no such table: run", errors.StoreGone),
        ("SQLITE_ERROR", "no such column: run", OperationalError),
    ],
)
def test_database_errors_become_readable_messages(name: str, message: str, becomes: type[Exception]) -> None:
    origin = sqlite3.OperationalError(message)
    origin.sqlite_errorname = name
    assert type(to_store_error(OperationalError("INSERT", {}, origin), "sqlite:///x.db")) is becomes


def test_a_name_that_is_not_utf8_is_no_bug(database: Database) -> None:
    def read() -> None:
        with database.read() as conn:
            find_run(conn, "demo\udcff")

    for refused in (read, lambda: create_run(database, "demo\udcff")):
        with pytest.raises(errors.StoreError, match=r"the name 'demo\\udcff' is not UTF-8"):
            refused()
