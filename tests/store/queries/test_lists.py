"""Reads: pages that neither miss nor repeat, filters that are never SQL, alterations that name their step."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update
from turnwise.records import GroupState, Purpose, Status
from turnwise.store.content.blobs import digest
from turnwise.store.database import Database, open_database
from turnwise.store.errors import NotFound, StepCorrupt, StoreError
from turnwise.store.queries import (
    accounting,
    failed_for_good,
    group_counts,
    group_of,
    list_groups,
    list_runs,
    list_trajectories,
    load_groups,
    load_trajectory,
    run_row,
    run_uid,
)
from turnwise.store.schema import blob, message, run
from turnwise.tests.store.making import HORIZON, call, create_run, group, play, play_group, task, trajectory, turn


def fill(database: Database) -> None:
    create_run(database)
    call(database, "add_version", run="r", update=0, parent=None)
    play_group(database, "g")
    play_group(database, "f", GroupState.FILTERED)
    call(database, "open_group", group=group("o"))
    play(database, "o-0", "o", status=Status.ENV_ERROR)
    play(database, "o-1", "o", attempt=1, turns=3)
    call(database, "start_trajectory", trajectory=trajectory("o-2", "o", 1))


def test_every_trajectory_is_accounted_for(database: Database) -> None:
    fill(database)
    with database.read() as conn:
        assert accounting(conn, "r") == {"submitted": 7, "accepted": 2, "filtered": 2, "failed": 1, "running": 2}
        assert accounting(conn, "r", Purpose.EVAL)["submitted"] == 0
        counts = group_counts(conn, "r")
        assert {state.value: count for state, count in counts.items() if count} == {
            "ready": 1,
            "filtered": 1,
            "open": 1,
        }
        assert [row["id"] for row in list_groups(conn, run="r", state="open")] == ["o"]
        assert [row["id"] for row in list_runs(conn, status="running")] == ["r"]
        found = group_of(conn, "o-1")
    assert (found.task, found.horizon) == (task(), HORIZON)


def test_a_failure_with_a_successful_retry_is_not_counted(database: Database) -> None:
    fill(database)
    with database.read() as conn:
        assert failed_for_good(conn, "r") == []
    play(database, "o-3", "o", member=2, status=Status.TIMEOUT)
    with database.read() as conn:
        assert [(row["id"], row["status"]) for row in failed_for_good(conn, "r")] == [("o-3", "timeout")]


@pytest.mark.parametrize("sort", ["created_at", "reward", "status", "n_steps", "id"])
@pytest.mark.parametrize("descending", [True, False])
def test_pages_hold_every_row_once(database: Database, sort: str, descending: bool) -> None:
    fill(database)
    seen: list[str] = []
    with database.read() as conn:
        whole = [row["id"] for row in list_trajectories(conn, run="r", sort=sort, descending=descending)]
        while page := list_trajectories(
            conn, run="r", sort=sort, descending=descending, limit=2, after=seen[-1] if seen else None
        ):
            seen += [row["id"] for row in page]
    assert seen == whole
    assert len(set(seen)) == 7


def test_filters_narrow(database: Database) -> None:
    fill(database)
    with database.read() as conn:
        assert {row["id"] for row in list_trajectories(conn, status="env_error")} == {"o-0"}
        assert {row["id"] for row in list_trajectories(conn, status=["env_error", "running"])} == {"o-0", "o-2"}
        assert len(list_trajectories(conn, env="turnwise/TextSite-v0", purpose="train", success=True)) == 5
        assert list_trajectories(conn, policy="oracle") == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
    | st.just("'; DROP TABLE run; --")
)
def test_no_text_becomes_sql(database: Database, text: str) -> None:
    create_run(database)
    with database.read() as conn:
        assert list_trajectories(conn, run=text, status=text, env=text) == []
        with pytest.raises(NotFound):
            run_row(conn, f"-{text}")
        wrong: list[dict[str, Any]] = [{text + "=1": "x"}, {"sort": text + " "}]
        for arguments in wrong:
            with pytest.raises(StoreError, match=r"there are"):
                list_trajectories(conn, **arguments)


def test_an_altered_observation_names_its_step(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    play(database, "t", turns=4)
    with database.transaction() as tx:
        tx.conn.execute(update(blob).where(blob.c.hash == digest(b"page 2")).values(data=b"page 7"))
    with pytest.raises(StepCorrupt, match="trajectory t, step 2: the observation was altered") as raised:
        load_trajectory(database, "t")
    assert raised.value.step == 2
    assert load_trajectory(database, "t", verify=False).steps[2].observation == "page 7"
    assert len(load_groups(database, ["g"])[0].trajectories[0].steps) == 4


def test_an_altered_end_and_altered_tokens_are_named(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    play(database, "t", turns=2)
    which = select(message.c.tokens_blob).where(message.c.trajectory_id == "t", message.c.idx == 3)
    with database.transaction() as tx:
        tx.conn.execute(update(blob).where(blob.c.hash == which.scalar_subquery()).values(data=b"\0" * 13))
    for load in (lambda: load_trajectory(database, "t"), lambda: load_groups(database, ["g"])):
        with pytest.raises(StepCorrupt, match="tokens of message"):
            load()
    with database.transaction() as tx:
        tx.conn.execute(update(blob).where(blob.c.hash == digest(b"the end of t")).values(data=b"another"))
    with pytest.raises(StepCorrupt, match="the final observation") as raised:
        load_trajectory(database, "t")
    assert raised.value.step == 2


def test_any_action_round_trips(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    wild = "a\x00b\ud800c\x1a0000 é\n"
    one = turn(0, text=wild)
    step = replace(one["steps"][0], action=wild, state_key=wild)
    call(database, "append", trajectory="t", steps=[step], messages=one["messages"])
    call(database, "finish_trajectory", trajectory="t", status=Status.ENV_ERROR, error=wild, final_observation=wild)
    stored = load_trajectory(database, "t")
    assert stored.steps[0] == step
    assert stored.error == wild


def test_a_run_keeps_its_uid_and_shares_it_with_no_other(database: Database) -> None:
    create_run(database)
    create_run(database, "s")
    with database.read() as conn:
        uids = [run_uid(conn, name) for name in ("r", "s")]
    create_run(database)
    with closing(open_database(database.url)) as again, again.read() as conn:
        assert [run_uid(conn, name) for name in ("r", "s")] == uids
        with pytest.raises(NotFound, match="no run t"):
            run_uid(conn, "t")
        created = run_row(conn, "r")["created_at"]
    assert len(set(uids)) == 2
    with database.transaction() as tx:
        tx.conn.execute(update(run).values(created_at=created + timedelta(microseconds=1)))
    with database.read() as conn:
        assert run_uid(conn, "r") not in uids, "a run of this name in another store has another uid"
