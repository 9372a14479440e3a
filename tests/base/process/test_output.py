"""Stdout holds the result of a command alone, whatever an environment prints or replaces."""

import json
from typing import Any

import pytest
from turnwise.tests.base.process.prints import NOISE, PRINTS, WAYS
from turnwise.tests.console.forked_commands import Ended

from .conftest import Turnwise

pytestmark = pytest.mark.slow


def only_json(ran: Ended) -> Any:
    assert NOISE not in ran.out
    return json.loads(ran.out)


@pytest.mark.parametrize("way", WAYS)
def test_eval_prints_its_result_alone(turnwise: Turnwise, way: str) -> None:
    options = ["--policy", "oracle", "--env", PRINTS, "--option", f"way={way}", "--tasks", "2"]
    ran = turnwise("eval", *options, "--json")
    assert ran.code == 0, ran.err
    assert only_json(ran)["success"] == 1.0
    assert NOISE in ran.err


@pytest.mark.parametrize(
    "way", ["removes", *(pytest.param(way, marks=pytest.mark.soak) for way in WAYS if way != "removes")]
)
def test_eval_prints_its_table(turnwise: Turnwise, way: str) -> None:
    ended = turnwise("eval", "--policy", "oracle", "--env", PRINTS, "--option", f"way={way}", "--tasks", "2")
    assert "success" in ended.out


def test_every_command_that_runs_an_environment_prints_json_alone(turnwise: Turnwise) -> None:
    ran = turnwise("eval", "--policy", "random", "--env", PRINTS, "--tasks", "2", "--json")
    run = only_json(ran)["run"]
    ids = turnwise("trajectories", "list", "--run", run, "--ids").out.split()
    assert len(ids) == 2
    named = ("--import", PRINTS.partition(":")[0], "--json")
    assert len(only_json(turnwise("trajectories", "replay", *ids, *named))) == 2
    branched = only_json(turnwise("trajectories", "branch", ids[0], "--at", "1", "--policy", "random", *named))
    assert len(branched["episodes"]) == 1
    assert only_json(turnwise("envs", "check", PRINTS, "--json"))["ok"]
    exported = turnwise("trajectories", "export", "--out", "out.jsonl", "--format", "messages", "--run", run, *named)
    assert exported.code == 0, exported.err
    only_json(exported)


def test_help_is_on_stdout(turnwise: Turnwise) -> None:
    assert "--policy" in turnwise("eval", "--help").out
    assert "eval" in turnwise("--help").out
    assert turnwise("--version").out.startswith("turnwise ")
