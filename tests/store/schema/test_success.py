"""Success in SQL is ``records.is_success``, in every component that selects by it."""

from itertools import product

from sqlalchemy import select, update
from turnwise.base.rates import is_counted
from turnwise.records import GroupState, Status, is_success
from turnwise.store.database import Database
from turnwise.store.queries import RunReader, list_trajectories
from turnwise.store.schema import RESULT, SUCCEEDED, trajectory
from turnwise.tests.store.making import call, group, play, start

ENDS = list(product((None, True, False), Status, (0.0, 0.5, 1.0)))
"""Verdict, status and return of an episode."""


def test_the_conditions_agree_with_the_definition(database: Database) -> None:
    start(database)
    call(database, "open_group", group=group())
    play(database, "g-0")
    with database.transaction() as tx:
        for verdict, status, total in ENDS:
            tx.conn.execute(update(trajectory).values(success=verdict, status=status.value, reward=total))
            won = is_success(verdict, status, total)
            found = tx.conn.execute(select(SUCCEEDED, ~SUCCEEDED, RESULT)).one()
            assert (bool(found[0]), bool(found[1])) == (won, not won), (verdict, status, total)
            assert found[2] == (won if is_counted(status) else None), (verdict, status, total)


def test_a_failed_episode_is_never_selected_as_a_success(database: Database) -> None:
    """A timeout and an error after a verdict of success, and a success without a verdict, with a return of 2."""
    start(database)
    call(database, "open_group", group=group())
    ends = [(True, Status.TIMEOUT), (True, Status.ENV_ERROR), (None, Status.COMPLETED), (None, Status.TRUNCATED)]
    for member, (verdict, status) in enumerate(ends):
        play(database, f"g-{member}", member=member, success=verdict, status=status)
    call(database, "close_group", group="g", state=GroupState.FILTERED)
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory).values(source="expert"))
    reader = RunReader("r", database)
    with database.read() as conn:
        assert [row.id for row in list_trajectories(conn, success=True)] == ["g-2"]
        assert sorted(row.id for row in list_trajectories(conn, success=False)) == ["g-0", "g-3"]
    assert reader.demonstrations(limit=9) == ["g-2"]
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory).where(trajectory.c.id == "g-2").values(reward=0.4))
    assert reader.demonstrations(limit=9) == []
    assert reader.demonstrations(limit=9, min_return=0.4) == ["g-2"]
    assert reader.demonstrations(limit=9, min_return=-1e9) == ["g-2"]
