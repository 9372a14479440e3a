"""Ray's daemons and their agents end with the driver that started them."""

import contextlib
import subprocess
import sys
import time

import psutil
import pytest

AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
WAIT_S = 60.0
DRIVER = """
from turnwise.trainer.cluster.runtime import start_ray
start_ray()
print("up", flush=True)
input()
"""


@pytest.mark.slow
@pytest.mark.parametrize("started", [{"raylet"}, AGENTS], ids=["raylet", "agents"])
def test_no_process_of_ray_outlives_a_killed_driver(started: set[str]) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert driver.stdin is not None
    assert driver.stdout is not None
    with driver.stdin, driver.stdout:
        deadline = time.monotonic() + WAIT_S
        while not started <= _names(below := psutil.Process(driver.pid).children(recursive=True)):
            assert time.monotonic() < deadline, below
            time.sleep(0.05)
        for one in below:
            if _names([one]) & AGENTS:
                one.suspend()  # so that none ends by itself
        driver.kill()
        driver.wait(10)
        _, alive = psutil.wait_procs(below, timeout=10)
    assert alive == []


def _names(processes: list[psutil.Process]) -> set[str]:
    names = set()
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.add(one.name())
    return names
