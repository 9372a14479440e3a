"""Which updates of a long run are read."""

from turnwise.store.database import Database
from turnwise.store.queries import Updates, batch_metrics, batch_values, thinned
from turnwise.store.queries.updates import evenly, newest_update
from turnwise.tests.store.making import call, start


def _train(database: Database, updates: int) -> None:
    for number in range(1, updates + 1):
        empty = {"owner": "learner", "groups": [], "items": []}
        call(database, "acknowledge", run="r", update=number, parent=number - 1, metrics={"loss": number}, **empty)


def test_a_selection_has_every_nth_update_and_its_last_one(database: Database) -> None:
    start(database)
    with database.read() as conn:
        assert (newest_update(conn, "r"), thinned(conn, "r", 3), batch_metrics(conn, "r")) == (None, Updates(), [])
    _train(database, 11)
    with database.read() as conn:
        chosen = thinned(conn, "r", 3)
        assert chosen == Updates(0, 11, 4)
        assert [one["update"] for one in batch_metrics(conn, "r", chosen)] == [4, 8, 11]
        assert batch_values(conn, "r", "loss", Updates(9)) == {9: 9.0, 10: 10.0, 11: 11.0}
        assert batch_values(conn, "r", "reward", Updates(11)) == {11: None}
        assert thinned(conn, "r", 3, Updates(5, 7)) == Updates(5, 7)
        assert thinned(conn, "r", 3, Updates(12)) == Updates(12, 11)


def test_an_even_choice_ends_with_the_last_one() -> None:
    assert evenly([*range(10)], 4) == [0, 3, 6, 9]
    assert evenly([*range(9)], 4) == [2, 5, 8]
    assert (evenly([1, 2], 4), evenly([], 4), evenly([1, 2], None)) == ([1, 2], [], [1, 2])
