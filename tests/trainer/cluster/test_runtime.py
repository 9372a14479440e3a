"""Ray's daemons and their agents end with the driver that started them; `make soak` also kills it, early and late."""

import contextlib
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest
from turnwise.tests.chaos.harness import survivors
from turnwise.trainer.cluster import runtime
from turnwise.trainer.cluster.runtime import DaemonProbe

AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
NOT_STARTED = ("dashboard.py", "log_monitor.py", "monitor.py")
WAIT_S = 60.0
DRIVER = """
import threading
from turnwise.trainer.cluster.runtime import start_ray
from turnwise.trainer.shutdown import SHUTDOWN
SHUTDOWN.install()
SHUTDOWN.unblock()
with SHUTDOWN.handled_by(lambda reason: None, lambda error: None):
    start_ray()
    print("up", flush=True)
    threading.Event().wait()
"""


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("started", [{"raylet"}, AGENTS], ids=["raylet", "agents"])
def test_no_process_of_ray_outlives_a_killed_driver(started: set[str]) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert driver.stdout is not None
    with driver.stdout:
        deadline = time.monotonic() + WAIT_S
        while not started <= _names(below := psutil.Process(driver.pid).children(recursive=True)):
            assert time.monotonic() < deadline, below
            time.sleep(0.05)
        for one in below:
            if _names([one]) & AGENTS:
                one.suspend()  # so that none ends by itself
        driver.kill()
        driver.wait(10)
    assert survivors(below, 10) == []


@pytest.mark.slow
def test_only_what_a_run_needs_is_started_and_a_second_signal_leaves_no_agent_behind() -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert driver.stdout is not None
    with driver.stdout:
        assert driver.stdout.readline() == "up\n"
        below = psutil.Process(driver.pid).children(recursive=True)
        agents = [one for one in below if _names([one]) & AGENTS]
        assert len(agents) == len(AGENTS)
        assert not [one for one in below if any(name in " ".join(one.cmdline()) for name in NOT_STARTED)]
        for one in below:
            if _names([one]) & (AGENTS | {"raylet"}):
                one.suspend()  # so that neither Ray's shutdown nor an agent itself ends them
        driver.send_signal(signal.SIGINT)
        time.sleep(1.0)
        driver.send_signal(signal.SIGINT)
        driver.wait(10)
    assert survivors(agents, 0.5) == []


def test_a_daemon_of_a_cluster_that_accepts_no_connection_is_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        probe = DaemonProbe({"raylet": listening.getsockname()})
        monkeypatch.setattr(runtime, "UNREACHABLE_S", 0.0)
        assert probe.dead() == ""
    assert probe.dead() == "raylet"
    monkeypatch.setattr(runtime, "UNREACHABLE_S", 60.0)
    assert probe.dead() == "", "one failed connection proves nothing"


def _names(processes: list[psutil.Process]) -> set[str]:
    names = set()
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            names.add(one.name())
    return names
