"""A process that two signals, or one and a deadline, end in order; and the watchdog of one that is killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from turnwise.trainer.cluster.watchdog import marked

PROGRAM = """
import contextlib, sys, threading
from pathlib import Path
from turnwise.trainer import stopping
from turnwise.trainer.stopping import ENDING

folder = Path(sys.argv[4])
stopping.ORDERLY_S = float(sys.argv[3])
ENDING.install()
if sys.argv[1] == "unmasked":
    ENDING.unmask()
ENDING.record = lambda status, error: (folder / "row").write_text(f"{status} {error}")
ENDING.end_processes = lambda: (folder / "ended").touch()
def ask(reason):
    (folder / "asked").write_text(reason)

with ENDING.listening(ask) if sys.argv[2] == "listens" else contextlib.nullcontext():
    (folder / "ready").touch()
    threading.Event().wait(60)
"""
DRIVER = """
import subprocess, sys, time
from turnwise.trainer.cluster.watchdog import watch
dog = watch()
child = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]
subprocess.Popen(child, start_new_session=True)
time.sleep(60)
"""
WAIT_S = 30.0


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, *arguments, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(folder / "ready")
    return process


def until(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)


@pytest.mark.parametrize("masked", ["masked", "unmasked"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_what_cannot_stop_in_order(tmp_path: Path, masked: str, number: signal.Signals) -> None:
    process = started(tmp_path, masked, "alone", "60")
    process.send_signal(number)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + number
    assert err == f"turnwise: {number.name}: stopping\n"
    assert (tmp_path / "row").read_text() == f"stopped {number.name}"
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("masked", ["masked", "unmasked"])
def test_what_does_not_stop_when_asked_is_ended_at_the_deadline(tmp_path: Path, masked: str) -> None:
    process = started(tmp_path, masked, "listens", "0.7")
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "asked")
    assert process.poll() is None
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count("\n") == 1
    assert (tmp_path / "row").read_text() == "stopped SIGTERM"


@pytest.mark.parametrize("masked", ["masked", "unmasked"])
def test_a_second_signal_ends_at_once_and_a_repeated_one_does_not(tmp_path: Path, masked: str) -> None:
    process = started(tmp_path, masked, "listens", "60")
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "asked")
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=5)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count("\n") == 1


def test_the_watchdog_ends_what_a_killed_driver_started_in_another_session() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    with driver.stdout:
        assert driver.stdout.readline() == "up\n"
        (mark,) = {mark for mark in _marks() if mark.startswith(f"{driver.pid}-")}
        assert len(marked(mark)) == 1
        driver.kill()
        driver.wait(10)
        deadline = time.monotonic() + WAIT_S
        while marked(mark):
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
