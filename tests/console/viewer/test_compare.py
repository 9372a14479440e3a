"""The comparison of runs: the tasks that decide with their episodes, and evaluations that do not compare."""

from typing import Any

import pytest
from turnwise.console.viewer.pages import compare
from turnwise.console.viewer.pages.compare import notes_on
from turnwise.records import GroupState, Purpose
from turnwise.store.database import Database
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, create_run, group, play
from turnwise.trainer.run.comparison import ComparedRun


def evaluated(database: Database, run: str, successes: list[bool], **settings: Any) -> None:
    """Write a run whose only evaluation has one task per result."""
    create_run(database, run)
    call(database, "add_version", run=run, update=0, parent=None)
    for seed, success in enumerate(successes):
        name = f"{run}:eval-{seed}"
        call(database, "open_group", group=group(name, run, 1, Purpose.EVAL, seed))
        play(database, f"{name}-0", name, run=run, success=success)
        call(database, "close_group", group=name, state=GroupState.FILTERED, reason="evaluation")
    numbers = {"success": 0.5, "low": 0.4, "high": 0.6, "tasks": 3, "episodes": 3, "groups": f"{run}:eval-"}
    call(database, "add_metrics", run=run, update=0, kind="evaluation first", metrics=numbers | settings)


def test_the_tasks_that_decide_lead_to_an_episode_of_both_runs(own: Database) -> None:
    evaluated(own, "one", [True, False, True, True])
    evaluated(own, "two", [False, True, True, False])
    page = client_of(own).get("/api/compare?runs=one,two").json()
    (paired,) = page["paired"]
    assert (paired["better"], paired["worse"], paired["equal"]) == (1, 2, 1)
    tasks = [(one["id"], one["seed"], one["first_episode"], one["other_episode"]) for one in paired["tasks"]]
    assert tasks == [(f"task-{seed}", seed, f"one:eval-{seed}-0", f"two:eval-{seed}-0") for seed in (0, 3, 1)]
    shown = client_of(own).get("/compare?runs=one,two").text
    assert "/trajectories/two%3Aeval-3-0" in shown
    (family,) = paired["families"]
    assert [family[name] for name in ("worse", "better", "equal")] == [2, 1, 1]
    assert shown.count('<span class="quiet">first</span>') == 2
    assert '" title="task task-3">seed 3</a>' in shown


def test_all_tasks_that_differ_are_shown_on_demand(own: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "TASKS_SHOWN", 1)
    evaluated(own, "one", [True, True, True, False])
    evaluated(own, "two", [False, False, True, True])
    client = client_of(own)
    address = "/compare?runs=one,two"
    (some,), (whole,) = (client.get(f"/api{address}{more}").json()["paired"] for more in ("", "&tasks=all"))
    assert [one["seed"] for one in some["tasks"]] == [0, 3]
    assert [one["seed"] for one in whole["tasks"]] == [0, 1, 3]
    assert ">show all 3</a>" in client.get(address).text


def test_the_cost_of_a_success_is_beside_the_success(own: Database) -> None:
    for run, success in (("one", True), ("two", False)):
        create_run(own, run)
        call(own, "open_group", group=group(run, run, 1))
        play(own, f"{run}-0", run, turns=3, run=run, success=success)
    runs = client_of(own).get("/api/compare?runs=one,two").json()["comparison"]["runs"]
    assert [one["tokens_per_success"] for one in runs] == [6.0, None]
    assert "Tokens per success" in client_of(own).get("/compare?runs=one,two").text


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ({"temperature": 1.0, "samples": 1}, []),
        ({"temperature": 0.0, "samples": 1}, ["two was evaluated with temperature 0.0, not 1.0 as one"]),
        ({"temperature": 1.0, "samples": 4}, ["two was evaluated with samples 4, not 1 as one"]),
    ],
)
def test_evaluations_with_other_settings_are_marked(own: Database, settings: dict[str, Any], notes: list[str]) -> None:
    evaluated(own, "one", [True], temperature=1.0, samples=1)
    evaluated(own, "two", [True], **settings)
    client = client_of(own)
    assert client.get("/api/compare?runs=one,two").json()["notes"] == notes
    assert ("Not the same evaluation" in client.get("/compare?runs=one,two").text) == bool(notes)


def test_the_axis_of_the_curves_is_in_the_url(own: Database) -> None:
    for name in ("one", "two"):
        create_run(own, name)
    client = client_of(own)
    assert "No task was evaluated in both." in client.get("/compare?runs=one,two").text
    assert 'data-axis="tokens"' in client.get("/compare?runs=one,two&axis=tokens").text
    assert client.get("/compare?runs=one,two&axis=token").status_code == 400


def test_runs_of_unequal_length_are_named() -> None:
    def lasting(run: str, updates: int, kind: str = "train") -> ComparedRun:
        none: Any = {"split": "", "evaluation": "", "rate": None, "difference": None, "batch_success": None}
        none |= {"environments": [], "by_environment": {}, "reward": None, "tokens": 0, "wall_s": 0.0}
        none |= {"tokens_per_success": None, "seconds_per_success": None}
        return ComparedRun(run=run, kind=kind, status="finished", updates=updates, **none)

    runs = [lasting("long", 54), lasting("short", 26), lasting("like", 50), lasting("played", 0, "eval")]
    notes = notes_on(runs, [None] * 4)
    assert notes == ["short made 26 updates and long 54: the evaluations are not of policies that trained equally long"]


def test_a_parameter_that_occurs_twice_is_refused(own: Database) -> None:
    found = client_of(own).get("/api/compare?runs=r&runs=s")
    assert (found.status_code, "`runs=a,b`" in found.json()["error"]) == (400, True)
