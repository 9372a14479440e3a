"""A timeout does not count the time in which its process got no processor."""

import os
import signal
import subprocess
import sys
from time import sleep

from turnwise.envs.worlds.desktop.driver.deadline import INTERVAL_S, MAX_STRETCH, Timeout

STOPPED = """
import os, signal
from turnwise.envs.worlds.desktop.driver.deadline import Timeout
timeout = Timeout(10.0)
os.kill(os.getpid(), signal.SIGSTOP)
print(timeout.left_s())
"""


def test_time_without_a_processor_does_not_count() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, text=True) as process:
        os.waitpid(process.pid, os.WUNTRACED)
        sleep(0.2)
        process.send_signal(signal.SIGCONT)
        left_s, _ = process.communicate()
    assert float(left_s) > 9.9


def test_a_wait_ends_in_any_case() -> None:
    seconds = 5 * INTERVAL_S
    timeout = Timeout(seconds)
    sleep(seconds * MAX_STRETCH)
    assert timeout.left_s() <= 0
