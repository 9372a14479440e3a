"""Timers and limits of an environment do not end a command; those that were set before it, and of its children, do."""

import signal
import subprocess
import sys

import pytest

START = """
import os, resource, signal, sys, threading, time
from turnwise.process import children, timers
"""
IN_A_THREAD = """
def run(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
EXPIRE = """
def expire():
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
        signal.setitimer(timer, 0.001)
        while signal.getitimer(timer)[0]:
            pass
    os.kill(os.getpid(), signal.SIGXCPU)
    os.kill(os.getpid(), signal.SIGIO)
    if (child := os.fork()) == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        time.sleep(5)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGALRM
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)
"""


def ended(program: str) -> "subprocess.CompletedProcess[str]":
    code = START + IN_A_THREAD + EXPIRE + program
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("owner", ["", "run"])
def test_no_timer_of_an_environment_ends_a_process_of_turnwise(owner: str) -> None:
    """In the main thread, and in an actor, whose constructor runs in another thread."""
    ran = ended(
        f"{owner}(children.isolate_signals)\nrun(expire)\n" if owner else "children.isolate_signals()\nrun(expire)"
    )
    assert ran.returncode == 0, ran.stderr
    assert ("a timer of an environment expired" in ran.stderr) == (not owner)


def test_no_timer_of_an_environment_ends_the_program_that_calls_turnwise() -> None:
    program = "with children.signals_isolated():\n    run(expire)\n    assert timers.expired.total() >= 5\n"
    assert ended(program).returncode == 0
    after = "signal.setitimer(signal.ITIMER_REAL, 0.001)\ntime.sleep(5)"
    assert ended(program + after).returncode == -signal.SIGALRM


@pytest.mark.parametrize(
    ("set_up", "number"),
    [
        ("signal.setitimer(signal.ITIMER_REAL, 0.2)", signal.SIGALRM),
        ("resource.setrlimit(resource.RLIMIT_CPU, (1000, resource.RLIM_INFINITY))", signal.SIGXCPU),
    ],
)
def test_a_timer_or_limit_that_was_set_before_keeps_its_effect(set_up: str, number: signal.Signals) -> None:
    ran = ended(f"{set_up}\nchildren.isolate_signals()\nos.kill(os.getpid(), {int(number)})\ntime.sleep(5)")
    assert ran.returncode == -number


def test_a_handler_of_the_program_stays() -> None:
    program = "seen = []\nsignal.signal(signal.SIGALRM, lambda *_: seen.append(1))\nwith children.signals_isolated():\n"
    program += "    signal.setitimer(signal.ITIMER_REAL, 0.001)\n    time.sleep(0.1)\nassert seen == [1]\n"
    assert ended(program).returncode == 0
