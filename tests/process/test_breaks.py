"""An environment that lowers limits of its process or closes its files: the command goes on, or ends with one line."""

import errno
import json
import os
import resource
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from time import monotonic

import pytest
from sqlalchemy.exc import DBAPIError
from turnwise.console.failure import report
from turnwise.envs.base import TurnEnv
from turnwise.envs.errors import EnvironmentFailed
from turnwise.envs.runner import call_thread as calls
from turnwise.envs.runner.once import call_once
from turnwise.errors import REFUSED
from turnwise.process import limits, output
from turnwise.process.output import EXIT_LOST, LOST
from turnwise.store import operations
from turnwise.store.content.blobs import PNG, NewBlob
from turnwise.store.database import open_database
from turnwise.store.database_errors import to_store_error
from turnwise.store.errors import StoreUnavailable
from turnwise.store.writing.commit_queue import CommitQueue
from turnwise.tests.process.breaks import BREAKS, WAYS
from turnwise.tests.store.making import start

from .conftest import Turnwise


def evaluate(turnwise: Turnwise, way: str) -> tuple[int, str, str]:
    ran = turnwise("eval", "--policy", "oracle", "--env", BREAKS, "--option", f"way={way}", "--tasks", "3", "--json")
    return ran.code, ran.out, ran.err


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in WAYS if "all" not in way])
def test_an_evaluation_goes_on(turnwise: Turnwise, way: str) -> None:
    code, out, err = evaluate(turnwise, way)
    assert code == 0, err
    assert json.loads(out)["success"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in WAYS if "all" in way])
def test_an_evaluation_whose_files_are_closed_ends_with_one_line(turnwise: Turnwise, way: str) -> None:
    assert evaluate(turnwise, way) == (EXIT_LOST, "", f"turnwise: {LOST}\n")


THREADS = """
import os, threading, time
from turnwise.process import output
output.guard_descriptors()
os.close(output._guard[0])
write = os.write
os.write = lambda *arguments: (write(*arguments), time.sleep(0.2))  # time for the other thread
for one in [threading.Thread(target=output.check_descriptors) for _ in range(2)]:
    one.start()
"""


def test_threads_that_find_the_files_closed_print_one_line() -> None:
    ended = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (EXIT_LOST, f"turnwise: {LOST}\n")


@pytest.mark.slow
@pytest.mark.parametrize(("way", "kind"), [("limits", "limits"), ("closes streams", "file descriptor 0, 1 or 2")])
def test_the_check_finds_it(turnwise: Turnwise, way: str, kind: str) -> None:
    ran = turnwise("envs", "check", BREAKS, "--option", f"way={way}", "--json")
    found = {each["check"]: each["detail"] for each in json.loads(ran.out)["findings"] if each["verdict"] == "failed"}
    assert f"it changes {kind}" in found["process"]


def test_a_hard_limit_that_stays_low_is_a_failure_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who is not root."""
    start, tried = limits.limits(), list[tuple[int, int]]()
    present = [start]

    def refuse(number: int, values: tuple[int, int]) -> None:
        tried.append(values)
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(limits, "lowered_at", {})
    for module in (limits, calls):
        monkeypatch.setattr(module, "limits", lambda: present[0])
    monkeypatch.setattr(resource, "setrlimit", refuse)

    def lower(env: TurnEnv) -> None:
        present[0] = ((9, 9), *start[1:])

    with pytest.raises(EnvironmentFailed, match=r"lowered a hard limit of its process \(`RLIMIT_AS` to 9\)"):
        call_once(BREAKS, {"way": "limits"}, "lower", lower)
    assert tried == [start[0], (9, 9)]
    assert "`RLIMIT_AS`" in limits.lowered_limits()


def failed_write() -> DBAPIError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_WRITE"
    return DBAPIError("INSERT", None, error)


def test_a_limit_of_the_user_on_the_size_of_files_is_no_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "lowered_at", {"RLIMIT_FSIZE": monotonic() - limits.RECENT_S})
    assert "free some space" in str(to_store_error(failed_write(), "sqlite:///x"))
    monkeypatch.setattr(resource, "getrlimit", lambda number: (1000, 1000))
    monkeypatch.setattr(limits, "START", limits.limits())
    assert "1000 bytes (`RLIMIT_FSIZE`): raise the limit" in str(to_store_error(failed_write(), "sqlite:///x"))


@pytest.mark.parametrize("when", ["now", "before"])
@pytest.mark.parametrize("text", ["disk I/O error", "unable to open database file"])
def test_a_limit_that_an_environment_lowered_is_transient(
    monkeypatch: pytest.MonkeyPatch, when: str, text: str
) -> None:
    monkeypatch.setattr(limits, "lowered_at", {"RLIMIT_FSIZE": monotonic()} if when == "before" else {})
    if when == "now":
        monkeypatch.setattr(resource, "getrlimit", lambda number: (8, 1000))
    found = to_store_error(DBAPIError("INSERT", None, sqlite3.OperationalError(text)), "sqlite:///x")
    assert isinstance(found, StoreUnavailable)
    assert "code of an environment lowered limits of this process (`RLIMIT_" in str(found)


def test_the_store_waits_for_a_limit_that_is_raised_again(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path}/t.db", create=True)
    start(database)
    ended = threading.Event()

    def lower_and_raise() -> None:
        while not ended.is_set():
            with calls.environment_code():
                _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
                resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
                ended.wait(0.05)
            ended.wait(0.05)

    thread = threading.Thread(target=lower_and_raise)
    thread.start()
    try:
        with closing(CommitQueue(database)) as writer:
            for version in range(1, 6):
                writer.commit(operations.add_version.bind(run="r", update=version, parent=version - 1))
                database.blobs.stage(NewBlob.of(os.urandom(100_000), PNG))
    finally:
        ended.set()
        thread.join()
    assert limits.lowered["RLIMIT_FSIZE"]


def test_a_file_that_was_closed_names_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(OSError(errno.EBADF, "Bad file descriptor")) == REFUSED
    printed = capsys.readouterr().err
    assert printed == f"turnwise: a file, a folder or stdout: Bad file descriptor; if stdout can be written, {LOST}\n"


def test_a_process_of_turnwise_without_a_command_ends_too(tmp_path: Path) -> None:
    """A rollout worker, which does not claim its output."""
    process = os.fork()
    if process == 0:
        os.dup2(os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT), 2)
        output._claimed = output._guard = None
        os.closerange(3, 100)  # files of earlier tests: the guard has a low number, as in a process that just started
        output.guard_descriptors()
        with calls.environment_code():
            os.closerange(3, 100)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == EXIT_LOST
    assert (tmp_path / "err").read_text() == f"turnwise: {LOST}\n"
