"""A run on Docker sandboxes whose parts die: the containers go with their owner, the episodes are replaced.

In CI a node actor dies in the run of ``test_bad_worlds.py``.
"""

import json
import signal
import time
from pathlib import Path

import docker
import pytest
from turnwise.tests.chaos.harness import Launch, check_finished, containers, in_database, until_gone
from turnwise.tests.sandbox.backends.test_frozen_engine import STALL_MAX_S, engine

pytestmark = pytest.mark.docker

OVERRIDES = (
    'environments=[{ id = "turnwise/TinyCode-v0" }]',
    "evaluation.tasks=0",
    'sandboxes={ backend = "docker", max_per_node = 24 }',
    "rollout.turn_timeout_s=60",
)
UPDATES = 6
LEASES = 8
"""Sandboxes that must exist when their node actor dies."""
PLAYING = (
    "SELECT count(DISTINCT trajectory.no) FROM trajectory JOIN step ON step.trajectory_no = trajectory.no"
    " WHERE status = 'running'"
)
"""Episodes after their first turn: each holds a sandbox. One that still waits for a sandbox outlives a node actor."""
EPISODES = 4
"""Episodes that must be playing then."""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_run_whose_host_and_driver_died_is_resumed(tmp_path: Path) -> None:
    host_and_driver_die(tmp_path)
    launch = Launch.of(tmp_path, *OVERRIDES, f"max_steps={UPDATES}")
    assert launch.wait(240) == 0, launch.log()
    check_finished(tmp_path, updates_wanted=UPDATES)
    assert in_database(tmp_path, "SELECT count(*) FROM trajectory WHERE extras LIKE '%sha256:%'") > 0
    until_gone(containers("small"), "small")
    assert json.loads((tmp_path / "log.txt").read_text().splitlines()[-1])["status"] == "finished"


def host_and_driver_die(tmp_path: Path) -> None:
    """Kill a node actor and then the driver of a run, and check that their containers go, and no other."""
    bystander = docker.from_env().containers.run("turnwise/code:latest", ["sleep", "300"], detach=True)
    launch = Launch.of(tmp_path, *OVERRIDES, f"max_steps={UPDATES}")
    try:
        launch.until_update(2, 180)
        until = time.monotonic() + 60
        while len(leased := containers("small")) < LEASES:
            assert time.monotonic() < until, f"only {len(leased)} sandboxes"
            time.sleep(0.2)
        node = launch.part("SandboxNode")  # before the wait: the search takes longer than the rest of an episode
        while in_database(tmp_path, PLAYING) < EPISODES:
            assert time.monotonic() < until, f"fewer than {EPISODES} episodes play"
            time.sleep(0.02)
        node.kill()
        until_gone(leased, "small")
        launch.until_update(4, 180)
        # The updates so far may all come from groups that were ready before the node actor died.
        until = time.monotonic() + 60
        while not in_database(tmp_path, "SELECT count(*) FROM trajectory WHERE status = 'env_error'"):
            assert time.monotonic() < until, "the death of the node actor failed no episode"
            time.sleep(0.2)
        while not (held := containers("small")):
            assert time.monotonic() < until, "the restarted node actor started no sandbox"
            time.sleep(0.2)
        launch.kill()
        until_gone(held, "small")
        bystander.reload()
        assert bystander.status == "running"
    finally:
        bystander.remove(force=True)
        if launch.process.poll() is None:
            launch.kill()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_run_goes_on_while_the_engine_is_frozen_for_a_minute(tmp_path: Path) -> None:
    launch = Launch.of(tmp_path, *OVERRIDES, "max_steps=40")
    dockerd = engine()
    try:
        launch.until_update(2, 180)
        dockerd.send_signal(signal.SIGSTOP)
        time.sleep(60)
        dockerd.send_signal(signal.SIGCONT)
        assert launch.wait(600) == 0, launch.log()
    finally:
        dockerd.send_signal(signal.SIGCONT)
        if launch.process.poll() is None:
            launch.kill()
    check_finished(tmp_path, updates_wanted=40)
    records = [json.loads(line) for line in (tmp_path / "small" / "metrics.jsonl").read_text().splitlines()]
    (health,) = [one for one in records if one["kind"] == "sandboxes"]
    assert health["leases"] > 40
    assert health["loop_lag_ms"] < 1000 * STALL_MAX_S, health
    until_gone(containers("small"), "small")
