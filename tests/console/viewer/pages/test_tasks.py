"""The tasks of a run over time: which one got worse between two updates, and its episodes then and now."""

from collections.abc import Sequence
from typing import Any

import pytest
from starlette.testclient import TestClient
from turnwise.console.viewer.pages import tasks
from turnwise.console.viewer.pages.tasks import Window, first_trained
from turnwise.records import GroupState, Purpose
from turnwise.store.database import Database
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import call, group, play, play_scored, start


def evaluate(database: Database, name: str, update: int, of: int, successes: Sequence[bool]) -> None:
    """Evaluate version ``of`` on one task per result."""
    for seed, success in enumerate(successes):
        call(database, "open_group", group=group(f"eval-{name}-{seed}", purpose=Purpose.EVAL, size=1, seed=seed))
        play(database, f"eval-{name}-{seed}-0", f"eval-{name}-{seed}", version=of, success=success)
        call(database, "close_group", group=f"eval-{name}-{seed}", state=GroupState.FILTERED, reason="evaluation")
    numbers: dict[str, float | str] = {"success": 0.5, "low": 0.4, "high": 0.6, "tasks": 3, "episodes": 3}
    numbers |= {"reward": 1.0, "groups": f"eval-{name}"}
    call(database, "add_metrics", run="r", update=update, kind=f"evaluation {name}", metrics=numbers)


@pytest.fixture
def trained(own: Database) -> TestClient:
    """The viewer of a run with evaluations after 5 and 10 updates, in which task 1 got worse and task 2 better."""
    start(own)
    for update in range(1, 11):
        call(own, "add_version", run="r", update=update, parent=update - 1)
    five, ten = 5, 10
    evaluate(own, "untrained", 0, 0, [False, False, False])
    evaluate(own, "5", 5, five, [True, True, False])
    evaluate(own, "10", 10, ten, [True, False, True])
    play_scored(own, "early", 0, [1.0, 0.0], seed=7, version=0, verdicts=[True, False])
    play_scored(own, "late", 1, [1.0, 1.0], seed=7, version=ten, verdicts=[True, True])
    return client_of(own)


def lines(client: TestClient, query: str, key: str = "tasks") -> list[Any]:
    page = client.get(f"/api/runs/r/tasks?{query}").json()
    return [(one["seed"], [cell["success"] for cell in one["cells"]], one["change"]) for one in page[key]]


def test_the_task_that_got_worse_is_first(trained: TestClient) -> None:
    assert lines(trained, "from=5&to=10") == [(1, [0, 1, 0], -1), (0, [0, 1, 1], 0), (2, [0, 0, 1], 1)]
    assert lines(trained, "from=untrained&to=7&sort=better")[-1] == (2, [0, 0, 1], 0)
    page = trained.get("/api/runs/r/tasks?from=5&to=10").json()
    assert [one["label"] for one in page["windows"]] == ["untrained", "5", "10"]
    assert (page["worse"], page["better"], page["compared"], page["samples"]) == (1, 1, 3, [1, 1])
    assert "single flips are expected" in trained.get("/runs/r/tasks?from=5&to=10").text
    assert "Samples per task: n = 2." in trained.get("/runs/r/tasks?purpose=train").text
    assert [one["cells"][2]["success"] for one in page["families"]] == [2 / 3]


def test_many_evaluations_are_those_that_are_compared_and_the_newest(
    trained: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "WINDOWS_MAX", 1)
    compared = "/runs/r/tasks?from=5&to=10"
    assert trained.get(f"/api{compared}").json()["shown"] == [1, 2]
    assert trained.get(f"/api{compared}&columns=all").json()["shown"] == [0, 1, 2]
    shown = trained.get(compared).text
    assert "The newest of 3 evaluations" in shown
    assert shown.count('scope="col">untrained</th>') == 0
    assert trained.get(f"{compared}&columns=all").text.count('scope="col">untrained</th>') == 2


def test_the_untrained_policy_is_not_what_is_compared_with() -> None:
    untrained, warmup, after = (Window(str(update), update, None) for update in (-1, 0, 35))
    assert first_trained([untrained, warmup, after]) == 1
    assert first_trained([untrained, after]) == first_trained([after]) == 0


def test_a_task_leads_to_its_episodes_then_and_now(trained: TestClient) -> None:
    first = trained.get("/api/runs/r/tasks?from=5&to=10").json()["tasks"][0]
    assert [cell["example"] for cell in first["cells"]] == [None, "eval-5-1-0", "eval-10-1-0"]
    page = trained.get("/runs/r/tasks?from=5&to=10").text
    assert "/trajectories?run=r&amp;task=task-1&amp;purpose=eval&amp;versions=5-5" in page
    found = trained.get("/api/trajectories?run=r&task=task-1&versions=5-5").json()["trajectories"]
    assert [one["id"] for one in found] == ["eval-5-1-0"]
    found = trained.get("/api/trajectories?run=r&task=task-1&sort=reward").json()["trajectories"]
    assert len(found) == 3
    groups = trained.get("/api/runs/r/groups?task=task-7").json()["groups"]
    assert [one["group"]["id"] for one in groups] == ["late", "early"]


def test_training_is_shown_in_windows_of_updates(trained: TestClient) -> None:
    assert lines(trained, "purpose=train") == [(7, [0.5, 1.0], 0.5)]
    page = trained.get("/api/runs/r/tasks?purpose=train").json()
    assert [(one["label"], one["versions"]) for one in page["windows"]] == [("0–1", [0, 0]), ("10–11", [10, 10])]


def test_abandoned_episodes_are_not_counted(trained: TestClient, own: Database) -> None:
    call(own, "rewind", run="r", version=5)
    assert [one[1] for one in lines(trained, "purpose=train")] == [[0.5]]
    episodes = trained.get("/trajectories?run=r&versions=10-10").text
    assert "Only the weights of version 10 to 10 (after update 10)" in episodes
    assert 'href="/trajectories?run=r">all versions' in episodes
    assert episodes.count("abandoned by a resume") == 5
    assert "abandoned by a resume" not in trained.get("/trajectories?run=r&versions=0-5").text


@pytest.mark.parametrize("query", ["from=none", "to=-1", "sort=name", "purpose=test"])
def test_another_text_is_refused(trained: TestClient, query: str) -> None:
    assert trained.get(f"/runs/r/tasks?{query}").status_code == 400
    assert trained.get("/trajectories?run=r&versions=3").status_code == 400


def test_a_run_without_episodes_has_no_tasks(own: Database) -> None:
    start(own)
    page = client_of(own).get("/runs/r/tasks")
    assert (page.status_code, "has been counted yet" in page.text) == (200, True)
