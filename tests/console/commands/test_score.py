"""``turnwise runs score``, and the commands that show a reward set."""

import json

import pytest
from turnwise.records import GroupState, Task, Trajectory
from turnwise.store import operations
from turnwise.store.database import open_database
from turnwise.trainer.telemetry import progress

from ..conftest import Turnwise

EVIL = "\x1b[2Jpassed\nstatus  completed"


def says_go(task: Task, trajectory: Trajectory) -> float:
    """Score the texts of an episode, which a checker gets."""
    if trajectory.member:
        raise ValueError(EVIL)
    return float("back" in trajectory.steps[0].action and bool(trajectory.steps[0].observation))


@pytest.fixture
def closed(store: str) -> str:
    """Return a store in which the run's group is closed."""
    database = open_database(store)
    with database.transaction() as tx:
        operations.close_group(tx, group="g1", state=GroupState.READY)
    database.close()
    return store


def test_a_run_is_scored_and_the_set_is_shown(turnwise: Turnwise, closed: str) -> None:
    done = turnwise(
        "runs", "score", "demo", "--rewards", "go", "--reward", f"{__name__}:says_go", "--json", "--store", closed
    )
    report = json.loads(done.out)
    assert (done.code, report["scored"], report["unscored"], report["reward"]) == (1, 1, 1, "checker")
    assert (report["new_mean"], report["agreement"], report["pairs"]) == (1.0, None, 0)
    assert report["last_error"].endswith(f"raised ValueError: {EVIL}")
    assert ["reward", "sets", "go"] in [
        line.split() for line in turnwise("runs", "show", "demo", "--store", closed).out.splitlines()
    ]
    listed = turnwise("trajectories", "list", "--run", "demo", "--rewards", "go", "--json", "--store", closed).out
    assert {row["id"]: row["total"] for row in json.loads(listed)} == {"t0": 1.0, "t1": None}
    shown = turnwise("trajectories", "show", "t0", "--rewards", "go", "--store", closed).out.splitlines()
    assert ["shaped", "1"] in [line.split() for line in shown]
    assert any(line.endswith("(shaped +1)  (invalid)") for line in shown)
    hidden = turnwise("trajectories", "show", "t1", "--rewards", "go", "--store", closed).out
    assert ["shaped", "none"] in [line.split() for line in hidden.splitlines()]
    assert "\x1b" not in hidden
    assert "shaped" not in turnwise("trajectories", "show", "t0", "--store", closed).out


def test_the_printed_report_is_inert(turnwise: Turnwise, closed: str) -> None:
    done = turnwise("runs", "score", "demo", "--rewards", "go", "--reward", f"{__name__}:says_go", "--store", closed)
    lines = done.out.splitlines()
    assert "\x1b" not in done.out
    assert not any(line.startswith("status") for line in lines)
    assert "trajectories  2" in lines
    assert (
        turnwise(
            "runs",
            "score",
            "demo",
            "--rewards",
            "short",
            "--reward",
            "turn_penalty",
            "--option",
            "per_turn=0.5",
            "--store",
            closed,
        ).code
        == 0
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("demo", "--rewards", "x", "--reward", "turn_penalty", "--option", "per_turn=-1"),
            "`--option per_turn`: must be at least 0",
        ),
        (("dem", "--rewards", "x", "--reward", "turn_penalty"), "no run dem in the store"),
    ],
)
def test_a_wrong_use_is_explained(turnwise: Turnwise, closed: str, arguments: tuple[str, ...], message: str) -> None:
    done = turnwise("runs", "score", *arguments, "--store", closed)
    assert (done.code, message in done.err) == (2, True), done.err


def test_an_unknown_set_is_explained(turnwise: Turnwise, closed: str) -> None:
    done = turnwise("trajectories", "list", "--run", "demo", "--rewards", "go", "--store", closed)
    assert (done.code, "run demo has no reward set `go`; it has none" in done.err) == (2, True)


def test_the_progress_of_a_long_scoring_is_printed(
    turnwise: Turnwise, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.0)
    done = turnwise("runs", "score", "demo", "--rewards", "go", "--reward", f"{__name__}:says_go", "--store", closed)
    assert "1 of 1 groups scored, about 0 s remain" in done.err.splitlines()
