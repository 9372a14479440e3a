"""The list of runs: filters and order in the URL, pages, and what a success costs."""

from typing import Any

import pytest
from turnwise.console.viewer.pages import run, runs
from turnwise.records import GroupState, Purpose
from turnwise.store.database import Database
from turnwise.store.run_lock import hold_run
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, create_run, group, play, play_group, train

SITE, WEB = "turnwise/TextSite-v0", "turnwise/TinyWeb-v0"


def write(database: Database, name: str, environment: str, wins: int, **metrics: Any) -> None:
    """Write a run with one update of two trajectories of four tokens, of which ``wins`` succeed."""
    create_run(database, name, config={"environments": [{"id": environment}]})
    call(database, "add_version", run=name, update=0, parent=None)
    call(database, "open_group", group=group(f"{name}-g", name))
    for member in range(2):
        play(database, f"{name}-g-{member}", f"{name}-g", member, run=name, success=member < wins)
    call(database, "close_group", group=f"{name}-g", state=GroupState.READY)
    train(database, [f"{name}-g"], 1, 0, name, metrics=metrics)


def names(database: Database, query: str) -> list[str]:
    return [one["id"] for one in client_of(database).get(f"/api/runs?{query}").json()["runs"]]


@pytest.fixture
def three(own: Database) -> Database:
    write(own, "web-a", WEB, 1, success=0.5)
    call(own, "finish_run", run="web-a", status="finished")
    write(own, "site-a", SITE, 2, success=1.0)
    call(own, "add_metrics", run="site-a", update=1, kind="pace", metrics={"update_seconds": 8.0})
    write(own, "site-b", SITE, 0, success=0.0)
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
        (one["tokens"], one["cost"]["tokens_per_success"], one["cost"]["seconds_per_success"])
        for one in (found["site-a"], found["web-a"], found["site-b"])
    ]
    assert numbers == [(8, 4.0, 4.0), (8, 8.0, None), (8, None, None)]


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


def test_the_page_says_when_older_runs_are_not_sorted(three: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Only the newest runs are sorted" not in client_of(three).get("/runs?sort=success").text
    monkeypatch.setattr(runs, "SORTED_MAX", 2)
    assert names(three, "sort=success") == ["site-a", "site-b"]
    assert "Only the newest runs are sorted" in client_of(three).get("/runs?sort=success").text


def test_an_evaluation_without_a_counted_episode_is_last(three: Database) -> None:
    numbers = {"low": 0.4, "high": 0.6, "tasks": 3, "episodes": 3, "groups": "x"}
    for name, success in (("web-a", 0.5), ("site-a", None), ("site-b", 0.6)):
        evaluation = {"kind": "evaluation first", "metrics": numbers | {"success": success}}
        call(three, "add_metrics", run=name, update=1, **evaluation)
    assert names(three, "sort=held_out") == ["site-b", "web-a", "site-a"]


def test_a_step_of_several_updates_names_both_ends(three: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    call(three, "finish_run", run="site-a", status="finished")
    assert 'title="update 1: 100.0 %"' in client_of(three).get("/runs/site-a").text
    monkeypatch.setattr(run, "STEPS_MAX", 1)
    play_group(three, "more", run="site-b")
    train(three, ["more"], 2, 1, "site-b", metrics={"success": 1.0})
    page = client_of(three).get("/runs/site-b").text
    assert 'title="mean of the updates 1 to 2: 50.0 %"' in page


def test_an_evaluation_has_the_interval_of_its_success(own: Database) -> None:
    create_run(own, "e", kind="eval")
    call(own, "add_version", run="e", update=0, parent=None)
    for seed, success in enumerate((True, True, False)):
        call(own, "open_group", group=group(f"e:{seed}", "e", 1, Purpose.EVAL, seed))
        play(own, f"e:{seed}-0", f"e:{seed}", run="e", success=success)
        call(own, "close_group", group=f"e:{seed}", state=GroupState.FILTERED, reason="evaluation")
    rate = client_of(own).get("/api/runs/e").json()["now"]["rate"]
    assert (rate["tasks"], rate["success"]) == (3, pytest.approx(2 / 3))
    assert 0 < rate["low"] < rate["success"] < rate["high"] < 1
    page = client_of(own).get("/runs/e").text
    assert "tasks 3, episodes 3" in page
    assert "mean per episode" in page
    assert "The settings of its command." in page
    assert "differ from the defaults" not in page
    assert "the training episodes" not in client_of(own).get("/runs/e/failures").text


def test_an_import_is_told_from_a_training_run(own: Database) -> None:
    create_run(own, "demonstrations", kind="import")
    create_run(own, "trained")
    assert names(own, "kind=import") == ["demonstrations"]
    assert '<span class="tag">import</span>' in client_of(own).get("/runs").text
    assert "newest batch" not in client_of(own).get("/runs/demonstrations").text
