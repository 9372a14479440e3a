"""The list of runs: filters and order in the URL, pages, and what a success costs."""

from typing import Any

import pytest
from turnwise.console.viewer.pages import runs
from turnwise.store.database import Database
from turnwise.store.run_lock import hold_run
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, create_run, play_group, train

SITE, WEB = "turnwise/TextSite-v0", "turnwise/TinyWeb-v0"


def write(database: Database, name: str, environment: str, **metrics: Any) -> None:
    """Write a run with one update of two trajectories."""
    create_run(database, name, config={"environments": [{"id": environment}]})
    call(database, "add_version", run=name, update=0, parent=None)
    play_group(database, f"{name}-g", run=name)
    train(database, [f"{name}-g"], 1, 0, name, metrics={"trajectories": 2, **metrics})


def names(database: Database, query: str) -> list[str]:
    return [one["id"] for one in client_of(database).get(f"/api/runs?{query}").json()["runs"]]


@pytest.fixture
def three(own: Database) -> Database:
    write(own, "web-a", WEB, success=0.5, response_tokens=4.0, turns=6)
    call(own, "finish_run", run="web-a", status="finished")
    write(own, "site-a", SITE, success=1.0, response_tokens=3.0, turns=6)
    call(own, "add_metrics", run="site-a", update=1, kind="pace", metrics={"update_seconds": 8.0})
    write(own, "site-b", SITE, success=0.0)
    for name in ("site-a", "site-b"):
        with hold_run(own, name):
            pass
    return own


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["site-b", "site-a", "web-a"]),
        (f"environment={WEB}", ["web-a"]),
        ("name=site", ["site-b", "site-a"]),
        ("name=%25", []),
        ("status=interrupted", ["site-b", "site-a"]),
        ("status=finished", ["web-a"]),
        ("sort=success", ["site-a", "web-a", "site-b"]),
        ("sort=tokens_per_success", ["site-a", "web-a", "site-b"]),
        ("sort=seconds_per_success&name=-a", ["site-a", "web-a"]),
    ],
)
def test_runs_are_filtered_and_sorted_by_the_url(three: Database, query: str, expected: list[str]) -> None:
    assert names(three, query) == expected


def test_a_run_has_its_tokens_and_what_a_success_costs(three: Database) -> None:
    found = {one["id"]: one for one in client_of(three).get("/api/runs").json()["runs"]}
    numbers = [
        (one["tokens"], one["summary"]["tokens_per_success"], one["summary"]["seconds_per_success"])
        for one in (found["site-a"], found["web-a"], found["site-b"])
    ]
    assert numbers == [(8, 9.0, 4.0), (8, 24.0, None), (8, None, None)]


def test_a_run_without_its_driver_is_told_apart(three: Database) -> None:
    with hold_run(three, "site-b"):
        page = client_of(three).get("/api/runs").json()["runs"]
    assert [one["status"] for one in page] == ["running", "interrupted", "finished"]


def test_sorted_runs_are_paged(three: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "PAGE_ROWS", 2)
    assert names(three, "sort=success") == ["site-a", "web-a"]
    assert names(three, "sort=success&start=2") == ["site-b"]
    assert names(three, "after=site-a") == ["web-a"]
    client = client_of(three)
    assert "start=2" in client.get("/runs?sort=success").text
    assert "after=site-a" in client.get("/runs").text
