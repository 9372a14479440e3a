"""End states are compared completely, and new rows without their ids."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.envs.draws import NoInstance
from turnwise.envs.worlds.web.apps import state as database
from turnwise.envs.worlds.web.apps.state import ExpectedState, Tables, World, opened, read, states_equal
from turnwise.envs.worlds.web.apps.tasks.template import AppTask, same_answer

START: Tables = {"orders": [{"id": 1, "who": "a"}], "lines": [{"order_id": 1, "what": "x"}]}
REFERENCES = {"lines": {"order_id": "orders"}}


def end(number: int, who: str = "b", what: str = "y") -> Tables:
    orders = [*START["orders"], {"id": number, "who": who}]
    return {"orders": orders, "lines": [{"order_id": number, "what": what}, *START["lines"]]}


def test_the_ids_of_new_rows_are_ignored() -> None:
    assert states_equal(end(2), end(9), START, REFERENCES)
    assert not states_equal(end(2), end(9, who="c"), START, REFERENCES)
    assert not states_equal(end(2), end(9, what="z"), START, REFERENCES)
    assert not states_equal(end(2), START, START, REFERENCES)


def test_a_new_row_never_replaces_an_initial_one() -> None:
    again: Tables = {"orders": [{"id": 2, "who": "a"}], "lines": [{"order_id": 2, "what": "x"}]}
    assert not states_equal(START, again, START, REFERENCES)


def test_references_to_new_rows_are_compared() -> None:
    def two(first: str, second: str) -> Tables:
        orders = [*START["orders"], {"id": 2, "who": "b"}, {"id": 3, "who": "c"}]
        return {"orders": orders, "lines": [{"order_id": 2, "what": first}, {"order_id": 3, "what": second}]}

    assert not states_equal(two("y", "z"), two("z", "y"), START, REFERENCES)


def test_every_table_is_read() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT);"
            "CREATE TABLE lines (order_id INTEGER REFERENCES orders (id), what TEXT);"
            "INSERT INTO orders VALUES (1, 'a'), (7, 'b'); INSERT INTO lines VALUES (1, 'x'), (7, 'y');"
        )
        found = end(7) | {"lines": [{"order_id": 1, "what": "x"}, {"order_id": 7, "what": "y"}]}
        assert read(connection) == (found, {"orders": {}, **REFERENCES})
        task = AppTask("", (), (), ExpectedState(end(2)), site="", world={"tables": START})
        assert task.check(connection, None)
        assert replace(task, answer="yes").check(connection, "Yes.")
        assert not replace(task, answer="yes").check(connection, None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a ? #.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, who TEXT)")
    return path


def test_a_file_of_the_sandbox_is_only_read(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript("""
            CREATE TABLE "two "" words" (id INTEGER PRIMARY KEY, "from" INTEGER REFERENCES "two "" words" (id));
            INSERT INTO "two "" words" VALUES (1, 1);
        """)
    with opened(file.read_bytes()) as connection:
        assert read(connection)[0] == {"orders": [], 'two " words': [{"id": 1, "from": 1}]}
        for statement in ("INSERT INTO orders VALUES (1, '')", "ATTACH ':memory:' AS x", "SELECT load_extension('x')"):
            with pytest.raises(sqlite3.Error, match="not authorized"):
                connection.execute(statement)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("CREATE TABLE x (a, b AS (hex(zeroblob(2000000)))); INSERT INTO x VALUES (1)", "too big"),
        ("CREATE VIRTUAL TABLE x USING fts5(a)", "vtable"),
        ("CREATE TABLE x (a, b AS (hex(zeroblob(400000)))); INSERT INTO x(a) VALUES " + "(1)," * 99 + "(1)", "exceeds"),
    ],
)
def test_a_file_may_not_exhaust_this_process(file: Path, schema: str, problem: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(schema)
    with opened(file.read_bytes()) as connection, pytest.raises(sqlite3.Error, match=problem):
        read(connection)


def test_queries_of_a_file_end(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "TIMEOUT_S", 0.0)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany("INSERT INTO orders (who) VALUES (?)", [("a",)] * 20_000)
    with opened(file.read_bytes()) as connection, pytest.raises(sqlite3.OperationalError, match="interrupted"):
        read(connection)


def test_rows_that_refer_to_one_another_are_compared() -> None:
    loop: Tables = {"lines": [{"id": 1, "order_id": 2}, {"id": 2, "order_id": 1}]}
    assert not states_equal(loop, {"lines": []}, {"lines": []}, {"lines": {"order_id": "lines"}})


def test_the_expected_state_changes_a_copy() -> None:
    world = World({"today": "2031-06-03", "tables": START})
    expected = world.expected_state()
    assert expected.add("orders", who="b") == 2
    expected.edit("orders", {"id": 1}, who="z").remove("lines", what="x")
    expected.link("lines", order_id=2, what="y")
    assert expected.tables["orders"] == [{"id": 1, "who": "z"}, {"id": 2, "who": "b"}]
    assert expected.tables["lines"] == [{"order_id": 2, "what": "y"}]
    assert world.row("orders", id=1)["who"] == "a"
    with pytest.raises(NoInstance):
        world.row("orders", id=5)
    assert isinstance(expected, ExpectedState)


@pytest.mark.parametrize("given", ["12.50", "$12.5", " 12.50 ", '"12.50"', "12.500"])
def test_equivalent_answers_are_accepted(given: str) -> None:
    assert same_answer("12.50", given)


@pytest.mark.parametrize("given", ["1234.50", "$1,234.50", "1,234.5."])
def test_thousands_may_be_separated(given: str) -> None:
    assert same_answer("1234.50", given)
    assert same_answer("$1,234.50", given)
    assert same_answer("7, 1234.5", f"{given}, 7")


@pytest.mark.parametrize("given", ["1,2345", "1,234,5", "12,34.50", "1,234.51"])
def test_misplaced_separators_are_no_number(given: str) -> None:
    assert not same_answer("1234.50", given)
    assert not same_answer("12345", given)


def test_items_are_not_thousands() -> None:
    assert same_answer("100, 200", "200,100")
    assert same_answer("100, 200", "100,200")


@pytest.mark.parametrize("given", [None, "", "12.51", "1250", "12.50 or 13", "nan", "1e999999999", "12.50, 12.50"])
def test_other_answers_are_rejected(given: str | None) -> None:
    assert not same_answer("12.50", given)


def test_names_are_compared_without_case() -> None:
    assert same_answer("Brass lamp", "the brass lamp".removeprefix("the "))
    assert not same_answer("Brass lamp", "brass lamps")
    assert same_answer("b, a", "A,B")
