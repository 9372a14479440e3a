"""Texts and numbers round-trip exactly; a value that cannot be read is found as altered."""

import numpy as np
import pytest
from sqlalchemy import text
from turnwise.records import GroupState, Status
from turnwise.store.database import Database
from turnwise.store.errors import StepCorrupt
from turnwise.store.maintenance.integrity import check_store
from turnwise.store.queries import find_run, list_groups, list_metrics, list_trajectories, load_trajectory
from turnwise.tests.store.making import call, group, play, start, trajectory


def test_any_text_of_an_error_or_a_reason_round_trips(database: Database) -> None:
    """NUL, which PostgreSQL refuses, and lone surrogates, which UTF-8 refuses, as an environment may raise them."""
    why = "lone \ud800 surrogate, \x00 NUL, \x1a0000 escape"
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("g-0"))
    call(database, "finish_trajectory", trajectory="g-0", status=Status.ENV_ERROR, error=why)
    call(database, "start_trajectory", trajectory=trajectory("g-1", member=1))
    call(database, "cancel_trajectories", group="g", reason=why)
    call(database, "close_group", group="g", state=GroupState.FAILED, reason=why)
    call(database, "finish_run", run="r", status="failed", error=why)
    with database.read() as conn:
        assert (find_run(conn, "r").status, find_run(conn, "r").error) == ("failed", why)
        assert [row.reason for row in list_groups(conn, run="r")] == [why]
        assert [row.error for row in list_trajectories(conn, run="r")] == [why, why]
    assert load_trajectory(database, "g-0").error == why


def test_an_array_keeps_its_shape(database: Database) -> None:
    """An array of one element is read as a list of one element, so readers of metrics need not know the length."""
    start(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    given = {"one": np.array([0.5]), "two": np.array([1, 2]), "cell": np.array([[3]]), "number": np.array(4)}
    kept = {"one": [0.5], "two": [1, 2], "cell": [[3]], "number": 4}
    call(database, "finish_trajectory", trajectory="t", status=Status.COMPLETED, extras=given)
    call(database, "add_metrics", run="r", update=0, metrics=given)
    call(database, "add_metrics", run="r", update=1, metrics=given | {"nan": np.array([np.nan, 1])})
    assert load_trajectory(database, "t").extras == kept
    with database.read() as conn:
        assert list_metrics(conn, "r") == [{"update": 0, **kept}, {"update": 1, **kept, "nan": [None, 1]}]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("edit", ["reward_parts = '{'", f"observation_hash = {2**62}", "action = 7"])
def test_a_value_that_an_edit_left_unreadable_is_found_as_altered(database: Database, edit: str) -> None:
    start(database)
    call(database, "open_group", group=group())
    play(database, "t")
    with database.transaction() as tx:
        tx.conn.execute(text(f"UPDATE step SET {edit} WHERE idx = 1"))  # noqa: S608
    with pytest.raises(StepCorrupt, match="trajectory t, step 1: the step was altered"):
        load_trajectory(database, "t")
    assert {one.table for one in check_store(database)} == {"step"}
