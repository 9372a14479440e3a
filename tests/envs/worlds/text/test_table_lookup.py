"""``turnwise/TableLookup-v0``: rows, answers and rewards."""

import pytest
from turnwise.envs.worlds.text.reading import plain
from turnwise.envs.worlds.text.table_lookup import TableLookup

ROWS, COLUMNS, CELLS = ("lamp", "desk", "rug"), ("price", "stock"), ((12, 30), (85, 31), (40, 99))


def cell() -> TableLookup:
    return TableLookup(ROWS, COLUMNS, CELLS, "price", ("desk",))


def largest() -> TableLookup:
    return TableLookup(ROWS, COLUMNS, CELLS, "price", ROWS)


def test_a_row_is_read_and_then_answered() -> None:
    assert cell().opening() == "Rows: lamp, desk, rug. What is the price of the desk?"
    after, reply = cell().turn("i read the desk.")
    assert reply.observation == "desk: price 85, stock 31. What is the price of the desk?"
    assert dict(reply.parts) == {"read": 0.3}
    again, reply = after.turn("desk")
    assert (again, dict(reply.parts)) == (after, {})
    _, reply = again.turn("the price of the desk is 85.")
    assert reply.over


def test_the_wrong_row_and_the_wrong_number() -> None:
    after, reply = cell().turn("lamp")
    assert (reply.observation, dict(reply.parts)) == ("lamp: price 12, stock 30. What is the price of the desk?", {})
    _, reply = after.turn("12")
    assert (reply.observation, dict(reply.parts), reply.over) == (
        "12 is wrong. What is the price of the desk?",
        {"wrong": -0.1},
        False,
    )


def test_the_largest_value_needs_every_row_and_is_asked_once() -> None:
    puzzle, earned = largest(), 0.0
    assert puzzle.opening() == "Rows: lamp, desk, rug. What is the largest price?"
    for row in ROWS:
        assert puzzle.oracle() == row
        puzzle, reply = puzzle.turn(row)
        earned += reply.parts["read"]
    assert reply.observation == "rug: price 40, stock 99."
    assert earned == pytest.approx(0.3)
    assert puzzle.oracle() == "85"


@pytest.mark.parametrize(
    "text", ["lamp and desk", "85 or 12", "85 or 1e3", "desk 1,2", "the 2nd row, desk", "the table", "chair", ""]
)
def test_other_texts_are_invalid(text: str) -> None:
    after, reply = cell().turn(plain(text))
    assert (after, reply.valid, reply.over) == (cell(), False, False)
