"""Every way in which a run can end before its last update, and the same command that resumes it.

The ways are SIGTERM and SIGINT at any moment, to the process and to its group; the death of Ray's daemons; `kill -9`
of the driver at a named point. In CI one run is ended in every way in turn; `make soak` ends a separate run in each.
"""

import os
import signal
import time
from pathlib import Path

import pytest
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import abandoned_batches, check_finished, sizes, url
from turnwise.tests.chaos.signals import ENDS_WITHIN_S, READY_S, Program, check_ended, count, status

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]
TERM, INT = signal.SIGTERM, signal.SIGINT
PROCESS, GROUP = False, True
MIDDLE = -1.0
"""In place of seconds: after the second update."""
UPDATES = 16
CHECKPOINT_INTERVAL = 2
LEFT_S = 30.0
"""Seconds that processes may outlive a killed driver."""
DIES_WITHIN_S = 60.0


def test_a_run_that_was_ended_in_every_way_resumes(tmp_path: Path) -> None:
    for after, number, group in ((0.5, INT, GROUP), (5.0, TERM, GROUP)):
        ended_after(tmp_path, after, number, group)
    ended_in_the_first_evaluation(tmp_path, INT, PROCESS)
    ended_in_the_middle(tmp_path, TERM, GROUP)
    killed_at(tmp_path, "after_acknowledge:1")
    ended_by_a_second_signal(tmp_path)
    ended_by_the_death_of(tmp_path, "raylet")
    resumes(tmp_path)
    assert abandoned_batches(tmp_path) <= CHECKPOINT_INTERVAL * 3


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
    for name in ("raylet", "ray::StoreWriter", "ray::Engine"):
        program.part(name).suspend()
    program.send(TERM, PROCESS)
    check_ended(program, TERM, time.monotonic(), "stopped")
    resumes(tmp_path)


@pytest.mark.soak
def test_the_driver_is_killed_at_every_named_point(tmp_path: Path) -> None:
    for failpoint in ("after_optimizer:3", "after_acknowledge:2", "checkpoint_renamed:2"):
        killed_at(tmp_path, failpoint)
    resumes(tmp_path)
    assert abandoned_batches(tmp_path) <= CHECKPOINT_INTERVAL * 3


@pytest.mark.soak
@pytest.mark.parametrize("daemon", ["raylet", "gcs_server"])
def test_the_death_of_a_daemon_of_ray_ends_the_run(tmp_path: Path, daemon: str) -> None:
    ended_by_the_death_of(tmp_path, daemon)
    resumes(tmp_path)


@pytest.mark.parametrize(("number", "group"), [(TERM, GROUP), pytest.param(INT, PROCESS, marks=pytest.mark.soak)])
def test_a_signal_ends_an_evaluation_in_order(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    program = Program.of(tmp_path, "eval", "--env", "turnwise/TextSite-v0", "--policy", "random", "--tasks", "100000")
    program.until_rows("step", 1)
    program.send(number, group)
    assert program.wait(ENDS_WITHIN_S) == 128 + number
    assert len(program.err().splitlines()) == 1, program.err()
    with open_database(url(tmp_path)).read() as conn:
        assert conn.exec_driver_sql("SELECT status FROM run").scalars().all() == ["stopped"]
    assert program.left() == []


def started(folder: Path, failpoint: str = "") -> Program:
    return Program.train(folder, f"max_steps={UPDATES}", "evaluation.tasks=12", failpoint=failpoint)


def ended_after(folder: Path, seconds: float, number: signal.Signals, group: bool) -> None:
    program = started(folder)
    time.sleep(max(0.0, program.started + seconds - time.monotonic()))
    program.send(number, group)
    check_ended(program, number, time.monotonic(), "stopped", "")


def ended_in_the_first_evaluation(folder: Path, number: signal.Signals, group: bool) -> None:
    program = started(folder)
    program.until_rows("step", 1)
    program.send(number, group)
    check_ended(program, number, time.monotonic(), "stopped")


def ended_in_the_middle(folder: Path, number: signal.Signals, group: bool) -> None:
    """A signal after two more updates; the version it leaves is saved, so a resume loses nothing."""
    program = started(folder)
    program.until_rows("train_batch", count(folder, "train_batch") + 2)
    raylet = program.part("raylet")
    assert os.getpgid(raylet.pid) != os.getpgid(program.process.pid)
    assert not blocks(raylet.pid, signal.SIGTERM)
    program.send(number, group)
    check_ended(program, number, time.monotonic(), "stopped")
    database = open_database(url(folder))
    with database.read() as conn:
        newest = conn.exec_driver_sql("SELECT max(update_no) FROM policy_version").scalar_one()
        saved = conn.exec_driver_sql("SELECT max(update_no) FROM policy_version WHERE checkpoint <> ''").scalar_one()
    database.close()
    assert saved == newest < UPDATES


def killed_at(folder: Path, failpoint: str) -> None:
    """The driver's death by `kill -9` at a named point: no process outlives it, and no row is lost."""
    before = sizes(folder) if count(folder, "run") else {}
    program = started(folder, failpoint)
    program.until_exit(READY_S)
    assert program.process.returncode == -signal.SIGKILL, program.out()[-3000:]
    assert program.left(LEFT_S) == []
    after = sizes(folder)
    assert all(after[table] >= rows for table, rows in before.items())


def ended_by_a_second_signal(folder: Path) -> None:
    program = started(folder)
    program.until_rows("train_batch", count(folder, "train_batch") + 1)
    for name in ("raylet", "ray::StoreWriter"):
        program.part(name).suspend()  # so that nothing ends in order
    program.send(INT, GROUP)
    time.sleep(1.0)
    assert program.process.poll() is None
    program.send(INT, GROUP)
    program.wait(4.0)
    check_ended(program, INT, time.monotonic(), "stopped")


def ended_by_the_death_of(folder: Path, daemon: str) -> None:
    program = started(folder)
    program.until_rows("train_batch", count(folder, "train_batch") + 2)
    program.part(daemon).kill()
    assert program.wait(DIES_WITHIN_S) == 2
    lines = program.err().splitlines()
    assert len(lines) == 1, program.err()
    assert daemon in lines[0]
    assert "same command" in lines[0]
    assert status(folder) == "failed"
    assert program.left() == []


def resumes(folder: Path) -> None:
    """The same command goes on to the end of the run."""
    program = started(folder)
    assert program.wait(300) == 0, f"{program.out()[-3000:]}\n{program.err()}"
    assert program.err() == ""
    assert program.left() == []
    check_finished(folder, updates_wanted=UPDATES)


def blocks(pid: int, number: signal.Signals) -> bool:
    """Whether a process blocks a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigBlk"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)
