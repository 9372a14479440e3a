"""A process ends in order on a signal, a second signal or the grace period; a watchdog cleans up after SIGKILL."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from turnwise.trainer.cluster.watchdog import owned_processes

PROGRAM = """
import contextlib, sys, threading
from pathlib import Path
from turnwise.trainer import shutdown
from turnwise.trainer.shutdown import SHUTDOWN

folder = Path(sys.argv[4])
shutdown.GRACE_S = float(sys.argv[3])
SHUTDOWN.install()
if sys.argv[1] == "unblocked":
    SHUTDOWN.unblock()
SHUTDOWN.record = lambda status, error: (folder / "row").write_text(f"{status} {error}")
SHUTDOWN.kill_processes = lambda: (folder / "ended").touch()
def request_stop(reason):
    (folder / "requested").write_text(reason)

with SHUTDOWN.handled_by(request_stop) if sys.argv[2] == "handles" else contextlib.nullcontext():
    (folder / "ready").touch()
    threading.Event().wait(60)
"""
DRIVER = """
import subprocess, sys, time
from turnwise.trainer.cluster.watchdog import start_watchdog
watchdog = start_watchdog()
child = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
subprocess.Popen(child, start_new_session=True)
time.sleep(60)
"""
WAIT_S = 30.0


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, *arguments, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(folder / "ready")
    return process


def until(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)


@pytest.mark.parametrize("blocking", ["blocked", "unblocked"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_process_without_a_handler_in_order(
    tmp_path: Path, blocking: str, number: signal.Signals
) -> None:
    process = start(tmp_path, blocking, "alone", "60")
    process.send_signal(number)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + number
    assert err == f"turnwise: {number.name}: stopping\n"
    assert (tmp_path / "row").read_text() == f"stopped {number.name}"
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("blocking", ["blocked", "unblocked"])
def test_a_process_that_does_not_stop_is_ended_after_the_grace_period(tmp_path: Path, blocking: str) -> None:
    process = start(tmp_path, blocking, "handles", "0.7")
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "requested")
    assert process.poll() is None
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count("\n") == 1
    assert (tmp_path / "row").read_text() == "stopped SIGTERM"


@pytest.mark.parametrize("blocking", ["blocked", "unblocked"])
def test_a_second_signal_ends_the_process_at_once_and_a_repeated_one_does_not(tmp_path: Path, blocking: str) -> None:
    process = start(tmp_path, blocking, "handles", "60")
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "requested")
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count("\n") == 1


def test_the_watchdog_kills_processes_in_other_sessions_of_a_killed_driver() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver.stdout:
        assert driver.stdout.readline() == "up\n"
        (mark,) = {mark for mark in _marks() if mark.startswith(f"{driver.pid}-")}
        assert len(owned_processes(mark)) == 1
        driver.kill()
        driver.wait(10)
        deadline = time.monotonic() + WAIT_S
        while owned_processes(mark):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def _marks() -> set[str]:
    found = set()
    for one in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = one.read_bytes().split(b"\0")
        except OSError:
            continue
        found |= {os.fsdecode(part.partition(b"=")[2]) for part in variables if part.startswith(b"TURNWISE_DRIVER=")}
    return found
