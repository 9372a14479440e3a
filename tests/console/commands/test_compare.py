"""``turnwise runs compare``: numbers of the store, a difference paired by task, and one picture of all curves."""

import json
import re
from dataclasses import asdict
from math import sqrt
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from turnwise.base.rates import Rate, wilson
from turnwise.records import Group, GroupState, Purpose
from turnwise.store.database import Database, open_database
from turnwise.tests.store.making import HORIZON, call, create_run, play, play_group, sqlite_store, task, train

from ..conftest import Turnwise

SUCCESSES = {"r": (0, 0, 1, 1), "s": (1, 0, 1, 1, 1), "e": (1, 1, 0)}
"""By run, whether each held-out task was solved; the tasks of all runs are the first ones of one list."""


def evaluate(
    database: Database, run: str, version: int, solved: tuple[int, ...], first: int = 0, *, name: str = "after"
) -> None:
    for number, success in enumerate(solved, first):
        group = f"{run}:eval-{name}-{number}"
        call(database, "open_group", group=Group(group, run, task(number), HORIZON, 1, Purpose.EVAL))
        play(database, f"{group}-0", group, turns=1, version=version, run=run, success=bool(success))
        call(database, "close_group", group=group, state=GroupState.FILTERED)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a store with the training runs ``r`` and ``s`` and the evaluations ``e``, and ``o`` of
    other tasks."""
    made = sqlite_store(tmp_path)
    database = open_database(made)
    for run, rate, updates in (("r", 0.1, 1), ("s", 0.2, 2)):
        create_run(database, run, config={"name": run, "learner": {"rate": rate, "seed": 1}})
        call(database, "add_version", run=run, update=0, parent=None)
        evaluate(database, run, 0, (0, 0, 0, 0), name="untrained")
        for number in range(updates):
            play_group(database, f"{run}{number}", run=run)
            metrics = {"success": 0.25, "reward": 0.5 + number, "reward_part/found": 0.75}
            train(database, [f"{run}{number}"], number + 1, number, run, metrics=metrics)
        solved = SUCCESSES[run]
        evaluate(database, run, updates, (1, 1, 1, 1), name=f"update-{updates}")
        evaluate(database, run, updates, solved)
        result = (
            {"groups": f"{run}:eval-after-"}
            | asdict(Rate.of((success, 1) for success in solved))
            | ({"pass_at": {"2": 0.9}} if run == "s" else {})
        )
        call(database, "add_metrics", run=run, update=updates, kind="evaluation after", metrics=result)
        call(database, "finish_run", run=run, status="finished")
    create_run(database, "e", kind="eval", config={"policy": "random"})
    evaluate(database, "e", 0, SUCCESSES["e"])
    create_run(database, "o", kind="eval", config={"policy": "random", "split": "train"})
    evaluate(database, "o", 0, (1, 0), first=9)
    database.close()
    return made


def compared(turnwise: Turnwise, url: str, *runs: str) -> dict[str, Any]:
    ended = turnwise("runs", "compare", *runs, "--json", "--store", url)
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_the_numbers_of_a_comparison_are_those_of_the_store(turnwise: Turnwise, url: str) -> None:
    found = compared(turnwise, url, "r", "s", "e")
    first, second, third = found["runs"]
    assert [(one["run"], one["updates"], one["tokens"]) for one in (first, second)] == [("r", 1, 8), ("s", 2, 16)]
    assert (second["batch_success"], second["reward"], second["evaluation"]) == (0.25, 1.5, "after")
    for one, solved in zip(found["runs"], SUCCESSES.values(), strict=True):
        rate = one["rate"]
        assert (rate["tasks"], rate["success"]) == (len(solved), pytest.approx(sum(solved) / len(solved)))
        assert (rate["low"], rate["high"]) == pytest.approx(wilson(sum(solved), len(solved)))
    assert (third["batch_success"], third["kind"], third["tokens"]) == (None, "eval", 0)
    assert found["settings"] == {"learner.rate": {"r": 0.1, "s": 0.2}}


def test_the_difference_is_over_the_common_tasks_of_the_shown_evaluations(turnwise: Turnwise, url: str) -> None:
    first, second, third = compared(turnwise, url, "r", "s", "e")["runs"]
    assert first["difference"] is None
    half = 1.959964 * stdev((1, 0, 0, 0)) / sqrt(4)
    assert second["difference"] == pytest.approx({"tasks": 4, "mean": 0.25, "low": 0.25 - half, "high": 0.25 + half})
    assert (third["difference"]["tasks"], third["difference"]["mean"]) == (3, pytest.approx((1 + 1 - 1) / 3))
    assert compared(turnwise, url, "r", "r", "s")["runs"][1]["run"] == "s"


def test_a_comparison_is_a_table_of_numbers_and_one_of_settings(turnwise: Turnwise, url: str) -> None:
    out = turnwise("runs", "compare", "r", "s", "--store", url).out.splitlines()
    rows = [re.split(" {2,}", line) for line in out]
    assert rows[0][:7] == ["run", "status", "split", "evaluated", "difference", "pass@k", "updates"]
    assert rows[2][:5] == ["s", "finished", "train", "0.80 [0.38, 0.96]", "+0.25 [-0.24, +0.74], 4 tasks"]
    assert rows[2][5] == "pass@2 0.90"
    assert rows[4:] == [["setting", "r", "s"], ["learner.rate", "0.1", "0.2"]]


def test_evaluations_without_a_common_task_say_so_and_differ_in_their_split(turnwise: Turnwise, url: str) -> None:
    rows = [re.split(" {2,}", line) for line in turnwise("runs", "compare", "e", "o", "--store", url).out.splitlines()]
    assert rows[2][4] == "no common task"
    assert (rows[0][-1], rows[2][-1]) == ("environments", "turnwise/TextSite-v0")
    assert rows[4:] == [["setting", "e", "o"], ["split", "-", "train"]]


def test_runs_of_different_kinds_have_no_settings_to_compare(turnwise: Turnwise, url: str) -> None:
    *_, last = turnwise("runs", "compare", "r", "e", "--store", url).out.splitlines()
    assert last == "no settings are compared: only r is a run of kind `train`"
    assert len(turnwise("runs", "compare", "r", "--store", url).out.splitlines()) == 2


def test_one_picture_has_the_curves_of_all_runs(turnwise: Turnwise, url: str, tmp_path: Path) -> None:
    for runs, texts in (
        (("r", "s"), ("r", "s", "s, held out", "s, pass@2")),
        (("r",), ("training batches", "part found")),
    ):
        file = tmp_path / "curves.svg"
        ended = turnwise("runs", "compare", *runs, "--plot", str(file), "--store", url)
        assert (ended.code, ended.err) == (0, f"curves written to {file}\n")
        assert all(f"<!-- {text} -->" in file.read_text() for text in texts)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("r", "ss"), "no run ss in the store (did you mean 's'?)"),
        (("e", "--plot", "a.png"), "`--plot a.png`: no update of e is in the store"),
        (("r", "--plot", "a.word"), "`--plot a.word`: Format 'word' is not supported"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(
    turnwise: Turnwise, url: str, arguments: tuple[str, ...], error: str
) -> None:
    refused = turnwise("runs", "compare", *arguments, "--store", url)
    assert (refused.code, refused.out) == (2, "")
    assert error in refused.err
