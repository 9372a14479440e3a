"""A small run with its own process group, one signal, and what must hold once the run has ended."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from turnwise.store import queries
from turnwise.store.errors import StoreError
from turnwise.tests.chaos.harness import CONFIG, PROGRAM, descendants, reading, survivors, url
from turnwise.trainer.cluster.watchdog import owned_processes

ENDS_WITHIN_S = 10.0
READY_S = 240.0


@dataclass
class Program:
    """A ``turnwise`` command as the leader of its process group."""

    folder: Path
    process: subprocess.Popen[bytes]
    mark: str
    started: float
    printed: int
    """Bytes on stdout of earlier programs in this folder."""
    below: list[psutil.Process] = field(default_factory=list)
    """The processes below the program just before the last signal; Ray's agents carry no mark."""

    @classmethod
    def of(cls, folder: Path, *arguments: str, failpoint: str = "") -> "Program":
        folder.mkdir(parents=True, exist_ok=True)
        started = time.monotonic()
        printed = (folder / "stdout.txt").stat().st_size if (folder / "stdout.txt").exists() else 0
        with (folder / "stdout.txt").open("ab") as out, (folder / "stderr.txt").open("wb") as err:
            command = [PROGRAM, *arguments, "--store", url(folder)]
            env = {**os.environ, "TURNWISE_FAILPOINT": failpoint}
            process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=err, process_group=0, env=env)
        mark = f"{process.pid}-{psutil.Process(process.pid).create_time()}"
        return cls(folder, process, mark, started, printed)

    @classmethod
    def train(cls, folder: Path, *overrides: str, failpoint: str = "") -> "Program":
        """A run of ``small.toml``."""
        changes = (part for one in overrides for part in ("--set", one))
        return cls.of(folder, "train", str(CONFIG), *changes, failpoint=failpoint)

    def send(self, number: signal.Signals, group: bool) -> None:
        self.below = descendants(self.process.pid)
        if group:
            os.killpg(self.process.pid, number)
        else:
            os.kill(self.process.pid, number)

    def until_exit(self, seconds: float) -> None:
        """Wait until the program ends, and keep the processes that were below it."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"still running after {seconds} s:\n{self.out()[-3000:]}"
            self.below = descendants(self.process.pid) or self.below
            time.sleep(0.1)

    def wait(self, seconds: float) -> int:
        """The exit status; a program that takes longer is killed and fails the test."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {seconds} s:\n{self.out()[-3000:]}\n{self.err()}") from None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def out(self) -> str:
        return (self.folder / "stdout.txt").read_bytes()[self.printed :].decode()

    def err(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    def until_rows(self, table: str, rows: int) -> None:
        """Wait until the store holds so many rows in ``table``."""
        deadline = time.monotonic() + READY_S
        while count(self.folder, table) < rows:
            assert self.process.poll() is None, f"ended before {table} {rows}:\n{self.out()[-3000:]}\n{self.err()}"
            assert time.monotonic() < deadline, f"no {table} {rows} within {READY_S} s:\n{self.out()[-3000:]}"
            time.sleep(0.25)

    def part(self, name: str) -> psutil.Process:
        """A process of this program by the start of its name."""
        return self._parts(name)[0]

    def until_part(self, name: str) -> psutil.Process:
        """Wait until ``part`` finds a process, and return it."""
        deadline = time.monotonic() + READY_S
        while not (found := self._parts(name)):
            assert self.process.poll() is None, f"ended before {name}:\n{self.out()[-3000:]}\n{self.err()}"
            assert time.monotonic() < deadline, f"no {name} within {READY_S} s:\n{self.out()[-3000:]}"
            time.sleep(0.05)
        return found[0]

    def _parts(self, name: str) -> list[psutil.Process]:
        found = []
        for one in owned_processes(self.mark):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                if one.name().startswith(name):
                    found.append(one)
        return found

    def _alive(self) -> list[psutil.Process]:
        return [*owned_processes(self.mark), *survivors(self.below, 0)]

    def left(self, seconds: float = 1.0) -> list[str]:
        """Processes that outlive the program by more than ``seconds``."""
        deadline = time.monotonic() + seconds
        while (alive := self._alive()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [f"{one.pid} {one.name()}" for one in alive]


def count(folder: Path, table: str) -> int:
    """Rows of ``table``; 0 before there is a store, and while its server restarts."""
    try:
        with reading(folder) as conn:
            return int(conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())  # noqa: S608
    except StoreError:
        return 0


def status(folder: Path, run: str = "small") -> str:
    """The status in the run's row; empty where there is none."""
    if not count(folder, "run"):
        return ""
    with reading(folder) as conn:
        return str(queries.find_run(conn, run).status)


def check_ended(program: Program, number: signal.Signals, sent: float, *wanted: str) -> None:
    """Check the time, the one line, the exit status, the row's status (empty: no row), and that no process is left."""
    code = program.wait(ENDS_WITHIN_S - (time.monotonic() - sent))
    sys.stdout.write(f"ended {time.monotonic() - sent:.1f} s after {number.name}\n")
    lines = program.err().splitlines()
    assert len(lines) == 1, program.err()
    assert number.name in lines[0]
    assert code == 128 + number
    assert status(program.folder) in wanted
    assert program.left() == []
