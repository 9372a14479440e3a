"""A process ends in order on a signal, a second signal or the grace period; a watchdog cleans up after SIGKILL."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.tests.soak.sampling import crossed, in_soak
from turnwise.trainer.cluster.watchdog import END, Notes, owned_processes
from turnwise.trainer.shutdown import GRACE_S, REPEAT_WINDOW_S, SIGNALS, Shutdown

pytestmark = pytest.mark.slow

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

with SHUTDOWN.handled_by(request_stop, print) if sys.argv[2] == "handles" else contextlib.nullcontext():
    (folder / "ready").touch()
    threading.Event().wait(60)
"""
CALL = """
import asyncio, signal, sys, threading
from turnwise.errors import TurnwiseError
from turnwise.trainer.shutdown import SHUTDOWN

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell inherits "ignored"

@SHUTDOWN.receiving()
def call():
    SHUTDOWN.record = lambda status, error: print("recorded", status, error)
    SHUTDOWN.block()
    if sys.argv[1] == "early":
        print("up", flush=True)
        sys.stdin.readline()
    SHUTDOWN.unblock()
    return asyncio.run(main())

async def main():
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    if sys.argv[1] == "ignores":
        ended.set = lambda: None
    end = lambda text: loop.call_soon_threadsafe(ended.set)
    with SHUTDOWN.handled_by(end, end):
        if sys.argv[1] in ("fail", "abandon"):
            threading.Thread(target=getattr(SHUTDOWN, sys.argv[1]), args=("Ray's raylet died",)).start()
        elif sys.argv[1] != "early":
            print("up", flush=True)
        await ended.wait()
        if sys.argv[1] == "cancelled":
            raise asyncio.CancelledError
        return SHUTDOWN.failure or SHUTDOWN.reason

print("returned", call(), flush=True)
sys.stdin.readline()
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


def start(folder: Path, *arguments: str, before: str = "") -> "subprocess.Popen[str]":
    default = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # `nohup` lets it be ignored
    command = [sys.executable, "-c", default + before + PROGRAM, *arguments, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    until(folder / "ready")
    return process


def until(path: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"no {path}"
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "blocking"), crossed(SIGNALS, ["blocked", "unblocked"]))
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


@pytest.mark.parametrize("blocking", ["blocked", *in_soak("unblocked")])
def test_a_signal_ends_a_process_that_was_stopped_and_continued_many_times(tmp_path: Path, blocking: str) -> None:
    process = start(tmp_path, blocking, "handles", "60")
    for _ in range(10):
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.15)  # longer than one wait of the thread
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "requested")
    process.send_signal(signal.SIGSTOP)
    process.send_signal(signal.SIGCONT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (128 + signal.SIGTERM, "turnwise: SIGTERM: stopping\n")


def test_a_signal_that_the_process_ignores_or_handles_itself_is_not_received(tmp_path: Path) -> None:
    own = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); signal.signal(signal.SIGUSR1, print)\n"
    process = start(tmp_path, "blocked", "alone", "60", before=own)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGUSR1)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGUSR2)
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGUSR2


def test_after_a_signal_the_time_until_the_forced_exit_is_known() -> None:
    shutdown = Shutdown()
    assert shutdown.left_s() == float("inf")
    shutdown._first, shutdown._code = time.monotonic() - 2, 128 + signal.SIGTERM
    assert shutdown.left_s() == pytest.approx(GRACE_S - 2, abs=0.5)


@pytest.mark.parametrize("blocking", ["blocked", *in_soak("unblocked")])
def test_a_process_that_does_not_stop_is_ended_after_the_grace_period(tmp_path: Path, blocking: str) -> None:
    process = start(tmp_path, blocking, "handles", "0.7")
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "requested")
    assert process.poll() is None
    _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.count("\n") == 1
    assert (tmp_path / "row").read_text() == "stopped SIGTERM"


@pytest.mark.parametrize("blocking", ["unblocked", *in_soak("blocked")])
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


@pytest.mark.parametrize(("number", "after_s"), [(signal.SIGTERM, 0.4), (signal.SIGINT, 0.0)])
def test_a_signal_that_is_no_repetition_ends_the_process_at_once(
    tmp_path: Path, number: signal.Signals, after_s: float
) -> None:
    process = start(tmp_path, "unblocked", "handles", "60")
    process.send_signal(signal.SIGTERM)
    until(tmp_path / "requested")
    time.sleep(after_s)
    process.send_signal(number)
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("moment", ["early", "handles"])
def test_a_signal_stops_a_call_of_a_program_and_the_next_one_is_the_programs(moment: str) -> None:
    with calling(moment) as program:
        program.send_signal(signal.SIGTERM)
        if moment == "early":
            enter(program)
        assert output(program) == "returned SIGTERM"
        program.send_signal(signal.SIGTERM)
        _, err = program.communicate(timeout=WAIT_S)
        assert program.returncode == -signal.SIGTERM
        assert err == "turnwise: SIGTERM: stopping\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_that_leaves_a_call_without_a_result_ends_the_program(number: signal.Signals, code: int) -> None:
    with calling("cancelled") as program:
        program.send_signal(number)
        out, _ = program.communicate(timeout=WAIT_S)
        assert (out, program.returncode) == ("", code)


def test_a_second_signal_leaves_a_call_at_once() -> None:
    with calling("ignores") as program:
        program.send_signal(signal.SIGINT)
        assert program.stderr is not None
        assert program.stderr.readline() == "turnwise: SIGINT: stopping\n"
        program.send_signal(signal.SIGINT)
        time.sleep(REPEAT_WINDOW_S + 0.1)
        assert program.poll() is None
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=WAIT_S)
        assert (out, program.returncode) == ("", -signal.SIGINT)
        assert err.endswith("KeyboardInterrupt\n")


@pytest.mark.parametrize(
    ("method", "recorded"), [("fail", "recorded failed Ray's raylet died\n"), ("abandon", "")], ids=["fail", "abandon"]
)
def test_the_failure_of_a_call_is_recorded_unless_it_was_abandoned(method: str, recorded: str) -> None:
    with calling(method) as program:
        out, _ = program.communicate(timeout=WAIT_S)
        assert out == f"{recorded}returned Ray's raylet died\n"


@pytest.mark.parametrize("command", ["train x.toml", "eval --env e", "runs fork r"])
def test_a_command_that_trains_or_evaluates_receives_its_signals(command: str) -> None:
    program = "import turnwise.trainer.shutdown as s; s.Shutdown.install = lambda self: exit(9)\n"
    program += "from turnwise.console.app import main; main()"
    assert subprocess.run([sys.executable, "-c", program, *command.split()], check=False).returncode == 9


@contextlib.contextmanager
def calling(moment: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a program whose call is in its event loop, or not yet (``early``)."""
    pipe = subprocess.PIPE
    program = subprocess.Popen([sys.executable, "-c", CALL, moment], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    try:
        if moment not in ("fail", "abandon"):
            assert output(program) == "up"
        yield program
    finally:
        program.kill()
        program.communicate(timeout=WAIT_S)


def output(program: "subprocess.Popen[str]") -> str:
    """The next line of stdout."""
    assert program.stdout is not None
    return program.stdout.readline().rstrip()


def enter(program: "subprocess.Popen[str]") -> None:
    """Answer the read of a line from stdin."""
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()


def test_the_watchdog_kills_processes_in_other_sessions_of_a_killed_driver_and_reports_it() -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    assert driver.stderr is not None
    with driver.stdout, driver.stderr:
        assert driver.stdout.readline() == "up\n"
        (mark,) = {mark for mark in _marks() if mark.startswith(f"{driver.pid}-")}
        assert len(owned_processes(mark)) == 1
        driver.kill()
        driver.wait(10)
        deadline = time.monotonic() + WAIT_S
        while owned_processes(mark):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (line,) = driver.stderr.read().splitlines()
    assert line.startswith("turnwise: the driver died; run the same command again")


def test_a_driver_that_died_is_reported_with_the_daemons_that_did() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    notes = [f"{gone.pid}\n", f"{os.getpid()} gcs_server\n", f"{gone.pid} raylet\n"]
    assert Notes.read(notes).sessions == {gone.pid}
    assert Notes.read(notes).death().startswith("turnwise: the driver and Ray's raylet died; run the same command")
    assert Notes.read([*notes, f"{END}\n"]).death() == ""


def _marks() -> set[str]:
    found = set()
    for one in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = one.read_bytes().split(b"\0")
        except OSError:
            continue
        found |= {os.fsdecode(part.partition(b"=")[2]) for part in variables if part.startswith(b"TURNWISE_DRIVER=")}
    return found
