"""A check compares the complete end state: any other changed value fails the task.

CI changes the state of a task that changes nothing, and of one that does on each site; the soak has more.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from turnwise.envs.worlds.web.apps.tasks import TEMPLATES, draw
from turnwise.tests.envs.soaked import soaked_but
from turnwise.tests.envs.worlds.web.apps.running import Served

pytestmark = pytest.mark.slow


def changes(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield statements that each change one value or delete one row."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    for (table,) in tables.fetchall():
        ends = connection.execute(f"SELECT min(rowid), max(rowid) FROM {table}").fetchone()  # noqa: S608 - a name from the database
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        for row in sorted({number for number in ends if number is not None}):
            yield f"DELETE FROM {table} WHERE rowid = {row}"  # noqa: S608
            for _, column, kind, *_ in columns:
                if column != "id":
                    other = f"coalesce({column}, 0) + 1000" if kind == "INTEGER" else f"{column} || '.'"
                    yield f"UPDATE {table} SET {column} = {other} WHERE rowid = {row}"  # noqa: S608


IN_CI = ("shop/count-rated", "shop/cancel-order", "tracker/new-issue", "wiki/rename")


@pytest.mark.parametrize("name", soaked_but(IN_CI, list(TEMPLATES)[2::6]))
def test_any_other_change_fails(name: str, sites: dict[str, Served]) -> None:
    task = draw(name, 4)
    served = sites[task.site]
    solved, browser = served.play(task, task.oracle)
    assert solved
    with closing(sqlite3.connect(served.database, isolation_level=None)) as connection:
        statements = list(changes(connection))
        assert len(statements) > 50
        for statement in statements:
            connection.execute("BEGIN")
            assert connection.execute(statement).rowcount == 1
            assert not task.check(connection, browser.answer), statement
            connection.execute("ROLLBACK")
        assert task.check(connection, browser.answer)
