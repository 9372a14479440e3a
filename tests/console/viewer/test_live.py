"""A live page receives what is new, once, and follows a resume."""

import json
from threading import Thread
from time import monotonic, sleep

import pytest
from turnwise.console.viewer import live
from turnwise.console.viewer.pages.run import Cursor, new_series
from turnwise.store.database import Database
from turnwise.store.run_lock import hold_run
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, play_group, start, train


def update(database: Database, number: int, version: int) -> int:
    play_group(database, f"g{version}")
    return train(database, [f"g{version}"], number, version, metrics={"success": number / 10})


def evaluated(database: Database, number: int) -> None:
    numbers = {"success": 0.5, "low": 0.4, "high": 0.6, "tasks": 9, "episodes": 9, "reward": 1.0, "groups": "eval-"}
    call(database, "add_metrics", run="r", update=number, kind=f"evaluation {number}", metrics=numbers)


def test_a_reader_gets_only_what_is_after_its_cursor(own: Database) -> None:
    start(own)
    update(own, 1, 0)
    first = new_series(own, "r", Cursor())
    assert first is not None
    assert (first.updates, first.values["success"], first.cursor) == ([1], [0.1], Cursor(1, 1, 0))
    update(own, 2, 1)
    evaluated(own, 2)
    second = new_series(own, "r", first.cursor)
    assert second is not None
    assert (second.updates, second.values["success"], [one.name for one in second.evaluations]) == ([2], [0.2], ["2"])
    third = new_series(own, "r", second.cursor)
    assert third is not None
    assert (third.updates, third.values, third.evaluations, third.cursor) == ([], {}, [], second.cursor)


def test_a_reader_of_abandoned_updates_starts_again(own: Database) -> None:
    start(own)
    first = update(own, 1, 0)
    update(own, 2, first)
    call(own, "rewind", run="r", version=first)
    assert new_series(own, "r", Cursor(2, 2, 0)) is None
    assert new_series(own, "r", Cursor(1, first, 0)) is not None


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "-1.2.3", "a.b.c", "9" * 30 + ".1.1", "١.١.١"])
def test_another_text_is_the_cursor_of_the_beginning(text: str) -> None:
    assert Cursor.parse(text) == Cursor()


def test_a_cursor_is_read_from_its_text() -> None:
    assert [Cursor.parse(str(one)) for one in (Cursor(), Cursor(0, 0, 1), Cursor(33, 34, 3))] == [
        *(Cursor(), Cursor(0, 0, 1), Cursor(33, 34, 3))
    ]


def test_an_event_carries_the_new_update_until_the_run_ends(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_INTERVAL_S", 0.02)
    start(own)
    update(own, 1, 0)
    client, bodies = client_of(own), list[str]()
    with hold_run(own, "r"):
        reader = Thread(target=lambda: bodies.append(client.get("/runs/r/events?cursor=2.2.0").text))
        reader.start()
        sleep(0.2)
        update(own, 2, 1)
        sleep(0.2)
        call(own, "finish_run", run="r", status="finished")
        reader.join(timeout=20)
    events = [dict(line.split(": ", 1) for line in part.split("\n")) for part in bodies[0].strip().split("\n\n")[1:]]
    found = [(one["event"], one["id"], json.loads(one["data"])["updates"]) for one in events]
    assert found == [
        ("series", "2.2.0", []),
        ("series", "3.3.0", [2]),
        ("series", "3.3.0", []),
        ("ended", "3.3.0", []),
    ]
    assert max(len(one["data"]) for one in events) < 1_000


def test_a_stream_of_no_run_states_the_trouble(own: Database) -> None:
    began = monotonic()
    assert "event: trouble" in client_of(own).get("/runs/none/events").text
    assert monotonic() - began < 5
