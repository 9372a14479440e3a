"""End states are compared completely, and new rows without their ids."""

import sqlite3
from contextlib import closing

import pytest
from turnwise.envs.web.apps.draws import NoInstance, SeededDraws
from turnwise.envs.web.apps.state import ExpectedState, Tables, World, read, states_equal
from turnwise.envs.web.apps.tasks.template import Check, same_answer

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
        assert Check(START, end(2), None)(connection, None)
        assert Check(START, end(2), "yes")(connection, "Yes.")
        assert not Check(START, end(2), "yes")(connection, None)


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


@pytest.mark.parametrize("given", [None, "", "12.51", "1250", "12.50 or 13", "nan", "1e999999999", "12.50, 12.50"])
def test_other_answers_are_rejected(given: str | None) -> None:
    assert not same_answer("12.50", given)


def test_names_are_compared_without_case() -> None:
    assert same_answer("Brass lamp", "the brass lamp".removeprefix("the "))
    assert not same_answer("Brass lamp", "brass lamps")
    assert same_answer("b, a", "A,B")


def test_draws_are_the_same_for_a_key() -> None:
    one, other = SeededDraws("key"), SeededDraws("key")
    assert one.sample(range(50), 10) == other.sample(range(50), 10)
    assert {SeededDraws(str(seed)).integer(1, 6) for seed in range(100)} == {1, 2, 3, 4, 5, 6}
    with pytest.raises(NoInstance):
        one.choice(())
