"""A live page receives what is new, once, and follows a resume."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest
from turnwise.console.viewer import charts, live
from turnwise.console.viewer.series import Cursor, new_series
from turnwise.records import GroupState, Status
from turnwise.store import queries
from turnwise.store.database import Database
from turnwise.store.run_lock import hold_run
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, group, play, play_group, start, train


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
    assert (first.updates, first.values["success"], first.cursor) == ([1], [0.1], Cursor(1, 1, 0, -1))
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


@pytest.mark.parametrize(
    "text", ["", "1.2", "1.2.3", "1.2.3.4.5", "-1.2.3.4", "a.b.c.d", "9" * 30 + ".1.1.1", "١.١.١.١"]
)
def test_another_text_is_the_cursor_of_the_beginning(text: str) -> None:
    assert Cursor.parse(text) == Cursor()


def test_a_cursor_is_read_from_its_text() -> None:
    assert [Cursor.parse(str(one)) for one in (Cursor(), Cursor(0, 0, 1), Cursor(33, 34, 3, 32))] == [
        *(Cursor(), Cursor(0, 0, 1), Cursor(33, 34, 3, 32))
    ]


def test_an_event_carries_the_new_update_until_the_run_ends(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_INTERVAL_S", 0.02)
    start(own)
    update(own, 1, 0)
    client, bodies = client_of(own), list[str]()
    with hold_run(own, "r"):
        reader = Thread(target=lambda: bodies.append(client.get("/runs/r/events?cursor=2.2.0.0").text))
        reader.start()
        sleep(0.2)
        update(own, 2, 1)
        sleep(0.2)
        call(own, "finish_run", run="r", status="finished")
        reader.join(timeout=20)
    events = [dict(line.split(": ", 1) for line in part.split("\n")) for part in bodies[0].strip().split("\n\n")[1:]]
    found = [(one["event"], one["id"], json.loads(one["data"]).get("updates")) for one in events]
    assert found == [
        ("series", "2.2.0.0", []),
        ("series", "3.3.0.0", [2]),
        ("series", "3.3.0.0", []),
        ("ended", "3.3.0.0", None),
    ]
    assert max(len(one["data"]) for one in events) < 1_000


def test_a_stream_of_no_run_states_the_trouble(own: Database) -> None:
    began = monotonic()
    assert "event: trouble" in client_of(own).get("/runs/none/events").text
    assert monotonic() - began < 5


def test_rates_that_come_after_their_update_are_not_lost(own: Database) -> None:
    start(own)
    update(own, 1, 0)
    first = new_series(own, "r", Cursor())
    assert first is not None
    assert (first.pace.updates, [one.title for one in first.charts]) == ([], ["Success", "Loss"])
    rates = {"tokens_per_s": 8.0, "learner_busy_fraction": 0.5, "update_seconds": 4.0}
    call(own, "add_metrics", run="r", update=1, kind="pace", metrics=rates)
    second = new_series(own, "r", first.cursor)
    assert second is not None
    assert (second.updates, second.pace.updates, second.cursor) == ([], [1], Cursor(1, 1, 0, 1))
    assert second.pace.values == {"learner_busy_fraction": [0.5], "learner_busy_s": [2.0], "tokens_per_s": [8.0]}
    assert [one.title for one in second.charts] == ["Utilization", "Busy time", "Tokens per second"]


def test_failures_are_counted_in_the_update_after_them(own: Database) -> None:
    start(own)
    call(own, "open_group", group=group("lost"))
    play(own, "lost-0", "lost", status=Status.ENV_ERROR)
    play(own, "lost-1", "lost", 1, status=Status.TIMEOUT)
    call(own, "close_group", group="lost", state=GroupState.FAILED)
    update(own, 1, 0)
    update(own, 2, 1)
    whole = new_series(own, "r", Cursor())
    assert whole is not None
    assert whole.values["failures/env_error"] == [1, None]
    assert [line.label for line in whole.charts[-2].lines] == ["env_error", "timeout"]
    newer = new_series(own, "r", Cursor(1, 1, 0))
    assert newer is not None
    assert "failures/env_error" not in newer.values
    with own.read() as conn:
        times = queries.update_times(conn, "r")
        later = queries.failures_per_update(conn, "r", times, next(iter(times.values())) - timedelta(days=1))
    assert later == {1: {"env_error": 1, "timeout": 1}}


def test_a_page_fetches_little_per_update(own: Database) -> None:
    metrics = {f"reward_part/{name}": 0.25 for name in "abcdefgh"} | {
        line.metric: 0.123456789 for chart in charts.CHARTS for line in chart.lines
    }
    start(own)
    for number in range(1, 41):
        empty = {"owner": "learner", "groups": [], "items": []}
        call(own, "acknowledge", run="r", update=number, parent=number - 1, metrics=metrics, **empty)
        evaluated(own, number)
        call(own, "add_metrics", run="r", update=number, kind="pace", metrics=metrics)
    client = client_of(own)
    event = client.get("/api/runs/r/series?cursor=40.40.39.39").content
    assert json.loads(event)["updates"] == [40]
    assert len(event) + len(client.get("/runs/r/now").content) < 20_000


@pytest.fixture
def upgraded(own: Database) -> Callable[[], None]:
    """Upgrades the store from another process, as a newer program does."""
    change = "UPDATE alembic_version SET version_num = '9999'; ALTER TABLE trajectory RENAME COLUMN reward TO points"
    script = f"import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript({change!r})"

    def upgrade() -> None:
        file = Path(own.url.removeprefix("sqlite:///"))
        subprocess.run([sys.executable, "-c", script, str(file)], check=True)

    return upgrade


def test_an_upgrade_underneath_is_reported(
    own: Database, upgraded: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "POLL_INTERVAL_S", 0.02)
    start(own)
    update(own, 1, 0)
    client, bodies = client_of(own), list[str]()
    with hold_run(own, "r"):
        reader = Thread(target=lambda: bodies.append(client.get("/runs/r/events").text))
        reader.start()
        sleep(0.2)
        upgraded()
        reader.join(timeout=20)
    assert "event: trouble" in bodies[0]
    assert "revision 9999" in bodies[0]
    for path in ("/trajectories", "/trajectories/x/download/html"):
        page = client.get(path)
        assert (page.status_code, "revision 9999" in page.text) == (503, True)


@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (Path.unlink, "check its path"),
        (lambda file: file.write_bytes(b""), "no longer holds a turnwise store"),
    ],
)
def test_a_store_that_is_lost_underneath_is_reported(
    own: Database, lose: Callable[[Path], object], message: str
) -> None:
    start(own)
    play_group(own, "g")
    client = client_of(own)
    assert client.get("/runs").status_code == 200
    own.engine.dispose()
    lose(Path(own.url.removeprefix("sqlite:///")))
    answer = client.get("/api/runs/r")
    assert (answer.status_code, message in answer.json()["error"]) == (503, True), answer.text
    for path in ("/runs", "/trajectories/g-0", "/trajectories/g-0/download/json", f"/images/{'0' * 64}"):
        assert client.get(path).status_code == 503
    assert "event: trouble" in client.get("/runs/r/events").text
