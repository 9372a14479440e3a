"""Of a long run, a page reads and draws every n-th update, and a zoom reads its span finer."""

from collections.abc import Callable
from typing import Any

import pytest
from turnwise.console.viewer import series
from turnwise.console.viewer.pages import run
from turnwise.store.database import Database
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, start

UPDATES = 45
Get = Callable[[str], Any]


@pytest.fixture
def get(own: Database, monkeypatch: pytest.MonkeyPatch) -> Get:
    """Returns the JSON of an address; the run has 45 updates, 22 evaluations, and about 10 points per curve."""
    monkeypatch.setattr(series, "POINTS_MAX", 10)
    monkeypatch.setattr(run, "POINTS_MAX", 10)
    monkeypatch.setattr(run, "EVALUATIONS_MAX", 3)
    start(own)
    rate = {"success": 0.5, "low": 0.4, "high": 0.6, "tasks": 9, "episodes": 9, "reward": 1.0, "groups": "eval-"}
    for number in range(1, UPDATES + 1):
        made: dict[str, Any] = {"run": "r", "update": number}
        empty = {"owner": "learner", "groups": [], "items": []}
        call(own, "acknowledge", parent=number - 1, metrics={"success": number / 100}, **made, **empty)
        call(own, "add_metrics", kind="pace", metrics={"tokens_per_s": number}, **made)
        if number % 2 == 0:
            call(own, "add_metrics", kind=f"evaluation {number}", metrics=rate, **made)
    client = client_of(own)
    return lambda path: client.get(path).json()


def test_a_curve_has_every_nth_update_and_the_newest(get: Get) -> None:
    found = get("/api/runs/r/series")
    assert (found["every"], found["updates"]) == (5, [*range(5, 46, 5)])
    assert found["pace"]["updates"] == found["updates"]
    assert found["values"]["success"] == [number / 100 for number in found["updates"]]
    assert [one["update"] for one in found["evaluations"]] == [*range(2, 45, 3 * 2)]


def test_what_is_new_after_the_curve_is_whole(get: Get, own: Database) -> None:
    cursor = get("/api/runs/r/series")["cursor"]
    assert cursor == {"update": UPDATES, "version": UPDATES, "evaluations": 22, "paced": UPDATES}
    text = ".".join(
        str(cursor[name] + (name != "evaluations")) for name in ("update", "version", "evaluations", "paced")
    )
    empty = {"owner": "learner", "groups": [], "items": []}
    call(own, "acknowledge", run="r", update=46, parent=45, metrics={"success": 1.0}, **empty)
    news = get(f"/api/runs/r/series?cursor={text}")
    assert (news["every"], news["updates"], news["pace"]["updates"], news["evaluations"]) == (1, [46], [], [])


def test_a_span_is_read_finer(get: Get) -> None:
    found = get("/api/runs/r/series?from=11&to=17")
    assert (found["every"], found["updates"]) == (1, [*range(11, 18)])
    assert [one["update"] for one in found["evaluations"]] == [12, 14, 16]
    assert get("/api/runs/r/series?from=40&to=99")["updates"] == [*range(40, 46)]
    assert get("/api/runs/r/series?from=90&to=99")["updates"] == []


def test_the_page_of_a_long_run_states_what_is_drawn(get: Get, own: Database) -> None:
    now = get("/api/runs/r/now")
    assert (now["every"], now["n_evaluations"]) == (5, 22)
    assert [one["update"] for one in now["evaluations"]] == [40, 42, 44]
    assert [(one["first"], one["update"]) for one in now["steps"]][-2:] == [(36, 40), (41, 45)]
    assert now["tiles"]["success"]["since"] == "since evaluation 44"
    assert now["tiles"]["success"]["change"] == pytest.approx(0.45 - sum(range(35, 45)) / 1000)
    page = client_of(own).get("/runs/r").text
    assert "One update in 5 is drawn, and the newest one" in page
    assert "the newest 8 of 22" in page
    assert '<rect y="0.55" width="1" height="0.45"/>' in page, "the bar has the exact height of the success"
