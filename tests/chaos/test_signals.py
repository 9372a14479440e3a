"""SIGTERM and SIGINT at any moment, to the process or its group; the death of Ray's daemons; the driver's `kill -9`.

In CI one run is ended by signals (``test_endings.py``); `make soak` ends a separate run in each way.
"""

import signal
import time
from pathlib import Path

import pytest
from turnwise.store.database import open_database
from turnwise.tests.chaos.endings import (
    CHECKPOINT_INTERVAL,
    GROUP,
    PROCESS,
    ended_after,
    ended_by_a_second_signal,
    ended_by_another_driver,
    ended_by_deaths_of_its_learner,
    ended_by_the_death_of,
    ended_in_the_first_evaluation,
    ended_in_the_middle,
    ended_with_the_raylet_of_its_learner,
    killed_at,
    resumes,
    started,
)
from turnwise.tests.chaos.harness import abandoned_batches, url
from turnwise.tests.chaos.signals import ENDS_WITHIN_S, Program, check_ended

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
TERM, INT = signal.SIGTERM, signal.SIGINT
MIDDLE = -1.0
"""In place of seconds: after two updates."""


@pytest.mark.soak
@pytest.mark.parametrize("after", [0.5, 1.0, 2.0, 5.0, 10.0, MIDDLE])
@pytest.mark.parametrize("number", [TERM, INT])
@pytest.mark.parametrize("group", [PROCESS, GROUP])
def test_a_signal_ends_the_run_in_order(tmp_path: Path, after: float, number: signal.Signals, group: bool) -> None:
    if after == MIDDLE:
        ended_in_the_middle(tmp_path, number, group)
    else:
        ended_after(tmp_path, after, number, group)
    resumes(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(("number", "group"), [(TERM, GROUP), (INT, PROCESS)])
def test_a_signal_ends_the_first_evaluation_in_order(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    ended_in_the_first_evaluation(tmp_path, number, group)
    resumes(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(("number", "group"), [(INT, GROUP), (TERM, PROCESS)])
def test_a_signal_ends_the_warm_up_in_order(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    program = Program.train(tmp_path, "sft_warmup.steps=100000")
    program.until_rows("policy_version", 1)
    program.send(number, group)
    check_ended(program, number, time.monotonic(), "stopped")


@pytest.mark.soak
def test_a_run_whose_ray_does_not_answer_ends_in_time(tmp_path: Path) -> None:
    program = started(tmp_path)
    program.until_rows("train_batch", 1)
    for name in ("raylet", "ray::StoreActor", "ray::Engine"):
        program.part(name).suspend()
    program.send(TERM, PROCESS)
    check_ended(program, TERM, time.monotonic(), "stopped")
    resumes(tmp_path)


@pytest.mark.soak
def test_a_second_signal_ends_the_run_at_once(tmp_path: Path) -> None:
    ended_by_a_second_signal(tmp_path)
    resumes(tmp_path)


@pytest.mark.soak
def test_the_driver_is_killed_at_every_named_point(tmp_path: Path) -> None:
    points = ("group_closed:9", "group_scored:9", "after_optimizer:3", "after_acknowledge:2", "checkpoint_renamed:2")
    for failpoint in points:
        killed_at(tmp_path, failpoint)
    resumes(tmp_path)
    assert abandoned_batches(tmp_path) <= CHECKPOINT_INTERVAL * 5


@pytest.mark.soak
@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_the_death_of_a_daemon_of_ray_ends_the_run(tmp_path: Path, daemon: str) -> None:
    ended_by_the_death_of(tmp_path, daemon)
    resumes(tmp_path)


@pytest.mark.soak
def test_a_driver_that_dies_with_the_raylet_of_its_learner_is_reported(tmp_path: Path) -> None:
    ended_with_the_raylet_of_its_learner(tmp_path)
    resumes(tmp_path)


@pytest.mark.soak
def test_a_learner_that_keeps_dying_ends_the_run(tmp_path: Path) -> None:
    ended_by_deaths_of_its_learner(tmp_path)
    resumes(tmp_path)


@pytest.mark.soak
def test_a_driver_whose_run_another_one_took_over_ends(tmp_path: Path) -> None:
    ended_by_another_driver(tmp_path)
    resumes(tmp_path)


@pytest.mark.parametrize(("number", "group"), [(TERM, GROUP), pytest.param(INT, PROCESS, marks=pytest.mark.soak)])
def test_a_signal_ends_an_evaluation_in_order(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    program = Program.of(tmp_path, "eval", "--env", "turnwise/TextSite-v0", "--policy", "random", "--tasks", "5000")
    program.until_rows("step", 1)
    program.send(number, group)
    assert program.wait(ENDS_WITHIN_S) == 128 + number
    assert len(program.err().splitlines()) == 1, program.err()
    with open_database(url(tmp_path)).read() as conn:
        assert conn.exec_driver_sql("SELECT status FROM run").scalars().all() == ["stopped"]
    assert program.left() == []
