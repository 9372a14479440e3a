"""The ways in which a run can end before its last update, each with what must hold then, and the resume."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from turnwise.store import operations, queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import changes_of, check_finished, reading, sizes, updates, url
from turnwise.tests.chaos.signals import READY_S, Program, check_ended, count, status
from turnwise.trainer.run.run import MAX_LEARNER_DEATHS

PROCESS, GROUP = False, True
UPDATES = 32
"""More than a run makes until its last signal: updates go on while the processes to kill are looked up."""
CHECKPOINT_INTERVAL = 2
LEFT_S = 30.0
"""Seconds that processes may outlive a killed driver."""
DIES_WITHIN_S = 60.0
LEARNER_NOTICED_S = 10.0
"""Seconds in which the death of a learner ends its update, so that no further row is written before the resume."""
ONE_RANK = ('learner.backend="fsdp"', "learner.num_ranks=1")
TWO_RANKS = ('learner.backend="fsdp"', "learner.num_ranks=2")
"""The learner in Ray actors."""


def started(folder: Path, *changes: str, failpoint: str = "") -> Program:
    settings = (f"max_steps={UPDATES}", "evaluation.tasks=12", *changes, *changes_of(folder))
    return Program.train(folder, *settings, failpoint=failpoint)


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


def ended_in_the_middle(
    folder: Path,
    number: signal.Signals,
    group: bool,
    rank: bool = False,
    meanwhile: Callable[[Program], None] | None = None,
) -> None:
    """A signal after two more updates; the version it leaves is saved, so a resume loses nothing.

    With ``rank``, the learner is an actor that dies before. The run survives what ``meanwhile`` does.
    """
    program = started(folder, *(ONE_RANK if rank else ()))
    program.until_rows("train_batch", count(folder, "train_batch") + 2)
    if meanwhile is not None:
        meanwhile(program)
    if rank:
        program.part("ray::_RankActor").kill()
        program.until_rows("train_batch", count(folder, "train_batch") + 2)
    raylet = program.part("raylet")
    assert os.getpgid(raylet.pid) != os.getpgid(program.process.pid)
    assert not blocks(raylet.pid, signal.SIGTERM)
    program.send(number, group)
    check_ended(program, number, time.monotonic(), "stopped")
    with reading(folder) as conn:
        history = [one for one in queries.versions(conn, "small").values() if not one.abandoned]
    newest = max(one.update for one in history)
    assert newest < max_steps(folder), "every update was made before the signal"
    assert max(one.update for one in history if one.checkpoint) == newest


def killed_at(folder: Path, failpoint: str) -> None:
    """The driver's death by `kill -9` at a named point: no process outlives it, and no row is lost."""
    before = sizes(folder) if count(folder, "run") else {}
    program = started(folder, failpoint=failpoint)
    program.until_exit(READY_S)
    assert program.process.returncode == -signal.SIGKILL, program.out()[-3000:]
    assert program.left(LEFT_S) == []
    after = sizes(folder)
    assert all(after[table] >= rows for table, rows in before.items())


def ended_by_a_second_signal(folder: Path) -> None:
    program = started(folder)
    program.until_rows("train_batch", count(folder, "train_batch") + 1)
    for name in ("raylet", "ray::StoreActor"):
        program.part(name).suspend()  # so that nothing ends in order
    program.send(signal.SIGINT, GROUP)
    time.sleep(1.0)
    assert program.process.poll() is None
    program.send(signal.SIGINT, GROUP)
    program.wait(4.0)
    check_ended(program, signal.SIGINT, time.monotonic(), "stopped")


def survives_deaths(program: Program, restart: Callable[[], None] | None) -> None:
    """Updates go on after a restart of the store, and after the death of each kind of actor."""
    if restart is not None:
        restart()
        program.until_rows("train_batch", count(program.folder, "train_batch") + 1)
    for actor in ("RolloutWorker", "Engine", "StoreActor"):
        program.part(f"ray::{actor}").kill()
        program.until_rows("train_batch", count(program.folder, "train_batch") + 1)


def ended_by_the_death_of(folder: Path, daemon: str, meanwhile: Callable[[Program], None] | None = None) -> None:
    """The death of one of Ray's daemons, after what ``meanwhile`` does, which the run survives."""
    program = started(folder)
    program.until_rows("train_batch", count(folder, "train_batch") + 2)
    if meanwhile is not None:
        meanwhile(program)
    program.part(daemon).kill()
    assert program.wait(DIES_WITHIN_S) == 1, f"{program.out()[-3000:]}\n{program.err()}"
    lines = program.err().splitlines()
    assert len(lines) == 1, program.err()
    assert daemon in lines[0]
    assert "same command" in lines[0]
    assert status(folder) == "failed"
    assert program.left() == []


def ended_with_the_raylet_of_its_learner(folder: Path) -> None:
    """A driver with objects in the raylet's memory: Ray's client ends the process at once, unless the driver is first.

    Its watchdog then prints why, and what to do.
    """
    program = started(folder, *TWO_RANKS)
    program.until_rows("train_batch", count(folder, "train_batch") + 2)
    program.part("raylet").kill()
    assert program.wait(DIES_WITHIN_S) in (1, 2), f"{program.out()[-3000:]}\n{program.err()}"
    assert program.left(LEFT_S) == []
    (line,) = program.err().splitlines()
    assert "raylet" in line
    assert "same command" in line


def ended_by_deaths_of_its_learner(folder: Path) -> None:
    """A learner is replaced from the start or the last checkpoint until it has died too often since."""
    program = started(folder, "checkpoint.interval=1000", *TWO_RANKS)
    program.until_part("ray::_RankActor").kill()
    for _ in range(MAX_LEARNER_DEATHS):
        program.until_rows("train_batch", count(folder, "train_batch") + 2)
        program.part("ray::_RankActor").kill()
        time.sleep(LEARNER_NOTICED_S)
    assert program.wait(DIES_WITHIN_S) == 1, f"{program.out()[-3000:]}\n{program.err()}"
    assert program.out().count("replacing the learner from the start of the run") == 1
    assert program.out().count("replacing the learner from the checkpoint of update 0") == MAX_LEARNER_DEATHS - 1
    lines = program.err().splitlines()
    assert len(lines) == 1, program.err()
    assert f"died {MAX_LEARNER_DEATHS} times since the checkpoint of update 0" in lines[0]
    assert status(folder) == "failed"
    assert program.left() == []


def ended_by_another_driver(folder: Path) -> None:
    """The store refuses the writes of a driver once another one has taken over its run; its row stays as it is."""
    program = started(folder)
    program.until_rows("train_batch", count(folder, "train_batch") + 2)
    database = open_database(url(folder))
    with database.read() as conn:
        row = queries.find_run(conn, "small")
    with database.transaction() as tx:
        same = {name: getattr(row, name) for name in ("config", "config_hash", "kind", "code_version")}
        operations.create_run(tx, run="small", driver="another", **same)
    database.close()
    assert program.wait(DIES_WITHIN_S) == 1, f"{program.out()[-3000:]}\n{program.err()}"
    lines = program.err().splitlines()
    assert len(lines) == 1, program.err()
    assert "run small is now driven by another process" in lines[0]
    assert status(folder) == "running"
    assert program.left() == []


def resumes(folder: Path) -> None:
    """The same command goes on to the end of the run."""
    reached = updates(folder)
    program = started(folder)
    assert program.wait(300) == 0, f"{program.out()[-3000:]}\n{program.err()}"
    assert program.err() == ""
    assert program.left() == []
    assert reached < 1 or "resuming run small at update" in program.out()
    check_finished(folder, updates_wanted=max_steps(folder))


def max_steps(folder: Path) -> int:
    """The number of updates that the run is to make."""
    with reading(folder) as conn:
        return int(queries.find_run(conn, "small").config["max_steps"])


def blocks(pid: int, number: signal.Signals) -> bool:
    """Whether a process blocks a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(line for line in lines if line.startswith("SigBlk"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)
