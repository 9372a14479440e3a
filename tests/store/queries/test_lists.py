"""Reads: pages that neither miss nor repeat, filters that are never SQL, alterations that name their step."""

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update
from turnwise.records import GroupState, Purpose, Status
from turnwise.store.content.blobs import digest
from turnwise.store.content.rows import INLINE_TEXT, rows_of
from turnwise.store.database import Database, open_database
from turnwise.store.errors import NotFound, StepCorrupt, StoreError
from turnwise.store.queries import (
    accounting,
    failed_for_good,
    final_observation,
    find_run,
    group_counts,
    group_of,
    list_groups,
    list_runs,
    list_trajectories,
    load_groups,
    load_trajectory,
)
from turnwise.store.schema import blob, step
from turnwise.store.schema import trajectory as trajectory_table
from turnwise.tests.store.making import (
    HORIZON,
    call,
    create_run,
    group,
    play,
    play_group,
    records,
    task,
    trajectory,
    turn,
)


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
        assert [row.id for row in list_groups(conn, run="r", state="open")] == ["o"]
        assert [row.id for row in list_runs(conn, status="running")] == ["r"]
        found = group_of(conn, "o-1")
    assert (found.task, found.horizon) == (task(), HORIZON)


def test_a_failure_with_a_successful_retry_is_not_counted(database: Database) -> None:
    fill(database)
    with database.read() as conn:
        assert failed_for_good(conn, "r") == []
    play(database, "o-3", "o", member=2, status=Status.TIMEOUT)
    with database.read() as conn:
        assert [(row.id, row.status) for row in failed_for_good(conn, "r")] == [("o-3", "timeout")]


@pytest.mark.parametrize("sort", ["created_at", "reward", "n_steps"])
@pytest.mark.parametrize("descending", [True, False])
def test_pages_hold_every_row_once(database: Database, sort: str, descending: bool) -> None:
    fill(database)
    seen: list[str] = []
    with database.read() as conn:
        whole = [row.id for row in list_trajectories(conn, run="r", sort=sort, descending=descending)]
        while page := list_trajectories(
            conn, run="r", sort=sort, descending=descending, limit=2, after=seen[-1] if seen else None
        ):
            seen += [row.id for row in page]
    assert seen == whole
    assert set(whole) == {f"{of}-{n}" for of in "gfo" for n in range(2)} | ({"o-2"} if sort == "created_at" else set())


def test_filters_narrow(database: Database) -> None:
    fill(database)
    with database.read() as conn:
        assert {row.id for row in list_trajectories(conn, status="env_error")} == {"o-0"}
        assert {row.id for row in list_trajectories(conn, status=["env_error", "running"])} == {"o-0", "o-2"}
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
            find_run(conn, f"-{text}")
        wrong: list[dict[str, Any]] = [{text + "=1": "x"}, {"sort": text + " "}]
        for arguments in wrong:
            with pytest.raises(StoreError, match=r"there are"):
                list_trajectories(conn, **arguments)


def test_a_sort_by_reward_needs_a_run(database: Database) -> None:
    create_run(database)
    with database.read() as conn:
        assert list_trajectories(conn, run="r", sort="reward") == []
        with pytest.raises(StoreError, match="sorting by `reward` needs one run"):
            list_trajectories(conn, sort="reward")


def test_an_altered_observation_names_its_step(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    play(database, "t", turns=4)
    with database.transaction() as tx:
        tx.conn.execute(update(step).where(step.c.idx == 2).values(observation="page 7"))
    with pytest.raises(StepCorrupt, match="trajectory t, step 2: the step was altered") as raised:
        load_trajectory(database, "t")
    assert raised.value.step == 2
    assert load_trajectory(database, "t", verify=False).steps[2].observation == "page 7"


def test_an_altered_long_observation_names_its_step(database: Database) -> None:
    long = "page " * INLINE_TEXT
    create_run(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    call(database, "append", trajectory="t", **turn(0))
    call(database, "append", trajectory="t", **turn(1, text=long))
    call(database, "finish_trajectory", trajectory="t", status=Status.COMPLETED)
    assert load_trajectory(database, "t").steps[1].observation == long
    with database.transaction() as tx:
        tx.conn.execute(update(blob).where(blob.c.hash == digest(long.encode())).values(data=b"page 7", encoding=""))
    with pytest.raises(StepCorrupt, match="trajectory t, step 1: the observation was altered") as raised:
        load_trajectory(database, "t")
    assert raised.value.step == 1
    assert load_trajectory(database, "t", verify=False).steps[1].observation == "page 7"
    assert len(load_groups(database, ["g"])[0].trajectories[0].steps) == 2


def test_an_altered_end_and_altered_messages_are_named(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    play(database, "t", turns=2)
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory_table).values(final_observation="another"))
    with pytest.raises(StepCorrupt, match="trajectory t: a column, or a step, message or image, was altered") as raised:
        load_trajectory(database, "t")
    assert raised.value.step == 2
    other = select(step.c.messages).where(step.c.idx == 0).scalar_subquery()
    with database.transaction() as tx:
        tx.conn.execute(update(step).where(step.c.idx == 1).values(messages=other))
    for load in (lambda: load_trajectory(database, "t"), lambda: load_groups(database, ["g"])):
        with pytest.raises(StepCorrupt, match="trajectory t, step 1: the step was altered"):
            load()


def test_an_ended_trajectory_is_not_passed_off_as_a_running_one(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    play(database, "t", turns=2)
    with database.transaction() as tx:
        tx.conn.execute(update(trajectory_table).values(status=Status.RUNNING.value, reward=99.0))
    for load in (lambda: load_trajectory(database, "t"), lambda: load_groups(database, ["g"])):
        with pytest.raises(StepCorrupt, match="a column, or a step, message or image, was altered"):
            load()


def test_any_action_round_trips(database: Database) -> None:
    create_run(database)
    call(database, "open_group", group=group())
    call(database, "start_trajectory", trajectory=trajectory("t"))
    wild = "a\x00b\ud800c\x1a0000 é\n"
    [played], messages = records(0, text=wild)
    played = replace(played, action=wild, state_key=wild, reward_parts={wild: 0.5})
    call(database, "append", trajectory="t", rows=rows_of([played], messages))
    ending = {"error": wild, "stop_reason": wild, "final_observation": wild, "extras": {wild: [wild, 1, 2.0, -0.0]}}
    call(database, "finish_trajectory", trajectory="t", status=Status.ENV_ERROR, **ending)
    stored = load_trajectory(database, "t")
    assert stored.steps[0] == played
    assert (stored.error, stored.stop_reason, final_observation(database, "t")) == (wild, wild, wild)
    assert stored.extras == {wild: [wild, 1, 2.0, 0.0]}


def test_a_run_keeps_its_uid_and_shares_it_with_no_other(database: Database) -> None:
    create_run(database)
    create_run(database, "s")
    with database.read() as conn:
        uids = [find_run(conn, name).uid for name in ("r", "s")]
    create_run(database)
    with closing(open_database(database.url)) as again, again.read() as conn:
        assert [find_run(conn, name).uid for name in ("r", "s")] == uids
        with pytest.raises(NotFound, match="no run t"):
            find_run(conn, "t")
    assert len(set(uids)) == 2
