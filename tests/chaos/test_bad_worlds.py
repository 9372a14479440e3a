"""Broken environments (they raise, hang, return NaN or fifty megabytes), next to healthy ones or alone in a run.

Every bad world pays a reward that no healthy one pays before it goes wrong: had a failure been taken for an outcome,
the batches' rewards would show it. One healthy world plays in Docker sandboxes, whose node actor dies.
"""

import itertools
import json
import os
import time
from collections import Counter
from pathlib import Path

import docker
import pytest
from sqlalchemy import text
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import (
    Launch,
    check_history,
    command,
    containers,
    descendants,
    in_database,
    until_gone,
    url,
)
from turnwise.trainer.algorithms.random_streams import Streams
from turnwise.trainer.rollout.circuit_breaker import FAILURES_TO_GIVE_UP

WORLDS = """
import itertools
import threading

import gymnasium
from turnwise.envs import FreeText, TurnEnv

BRIBE = 1000.0
episodes = itertools.count()


class World(TurnEnv):
    action_space = observation_space = FreeText(words=("go", "here"))

    def __init__(self, fault):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        self.breaks = self.fault != "flaky" or next(episodes) % 3 == 0
        if self.fault == "reset":
            raise LookupError("no such page")
        return "here", {}

    def step(self, action):
        self.turn += 1
        if self.turn == 1:
            return "here", BRIBE if self.breaks else 0.25, False, False, {}
        if not self.breaks:
            return "here", 0.0, True, False, {"success": True}
        match self.fault:
            case "step" | "flaky":
                raise LookupError("the page is gone")
            case "hang":
                threading.Event().wait()
            case "nan":
                return "here", float("nan"), True, False, {}
            case "large":
                return "x" * 50_000_000, 0.0, True, False, {}

    def valid_actions(self):
        return [("go", 1.0)]

    def vocabulary(self):
        return ["go", "here"]


gymnasium.register("World-v0", entry_point=World)
"""
FAULTS = {"reset": "env_error", "step": "env_error", "hang": "env_error", "nan": "env_error", "large": "env_error"}
CODE = "code"
"""The healthy world in Docker sandboxes."""
KINDS = {"": 4.0, "flaky": 2.0, **dict.fromkeys(FAULTS, 1.0), CODE: 6.0}
AT_ONCE = 8
UPDATES = 3
MAX_STEPS = 4000
LEASES = 4
"""Sandboxes that must exist when their node actor dies."""
EPISODES = 3
"""Episodes that must be playing in them then."""
CODE_PLAYS = (
    "SELECT count(DISTINCT trajectory.no) FROM step JOIN trajectory ON step.trajectory_no = trajectory.no"
    " WHERE status = 'running' AND env_id LIKE '%TinyCode%'"
)
CODE_FAILED = "SELECT count(*) FROM trajectory WHERE status = 'env_error' AND env_id LIKE '%TinyCode%'"


def environment(fault: str) -> str:
    if fault == CODE:
        return f'[[environments]]\nid = "turnwise/TinyCode-v0"\nweight = {KINDS[CODE]}\n'
    options = f'fault = "{fault}"' if fault else 'family = "find"'
    env_id = "faulty_mod:World-v0" if fault else "turnwise/TextSite-v0"
    return f'[[environments]]\nid = "{env_id}"\noptions = {{ {options} }}\nweight = {KINDS[fault]}\n'


def config(folder: Path, *faults: str, seed: int = 0, warmup: int = 60) -> Path:
    """A run of these worlds, with the folder of their module where Ray's workers look for modules."""
    (folder / "faulty_mod.py").write_text(WORLDS)
    rest = (
        f'name = "small"\nseed = {seed}\nmax_steps = {MAX_STEPS}\n'
        "group_filters = []\n[rollout]\ngroups_per_batch = 4\ngroup_size = 4\n"
        f"max_concurrent_groups = {AT_ONCE}\nmax_staleness = 1\n"
        "reset_timeout_s = 30\nstep_timeout_s = 3\n"
        "[horizon]\nmax_turns = 3\nmax_tokens_per_turn = 4\nmax_context = 256\n[learner]\nlearning_rate = 1e-3\n"
        "[engine]\nkv_cache_memory_bytes = 33_554_432\n[model.new]\nhidden = 64\nheads = 2\n"
        f"[sft_warmup]\nsteps = {warmup}\nbatch_size = 4\n[evaluation]\ntasks = 0\n"
    )
    if CODE in faults:
        rest += '[sandboxes]\nbackend = "docker"\nmax_per_node = 16\n'
    path = folder / "worlds.toml"
    path.write_text(rest + "".join(map(environment, faults)))
    return path


def seed_that_draws_all() -> int:
    """One with which every kind of bad world, and a healthy one, are among the groups that open first."""

    def drawn(seed: int) -> set[str]:
        streams = [Streams(seed).of_draw("task_sampler", draw) for draw in range(AT_ONCE)]
        return {rng.choices(list(KINDS), list(KINDS.values()))[0] for rng in streams}

    return next(seed for seed in itertools.count() if drawn(seed) >= set(KINDS) - {CODE})


@pytest.fixture
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", ""))


@pytest.mark.chaos
@pytest.mark.docker
@pytest.mark.timeout(500)
@pytest.mark.usefixtures("_importable")
def test_bad_worlds_and_dying_sandboxes_beside_healthy_ones(tmp_path: Path) -> None:
    bystander = docker.from_env().containers.run("turnwise/code:latest", ["sleep", "300"], detach=True)
    launch = Launch.of(tmp_path, config=config(tmp_path, *KINDS, seed=seed_that_draws_all()))
    try:
        launch.until_update(UPDATES, 240)
        workers: set[int] = set()
        deadline = time.monotonic() + 120
        while len(workers) < 2:
            assert launch.process.poll() is None, launch.log()
            assert time.monotonic() < deadline, "the worker that abandoned threads was not replaced"
            workers |= {one.pid for one in descendants(launch.process.pid) if "RolloutWorker" in _name(one)}
            time.sleep(0.3)
        held = the_node_of_sandboxes_dies(tmp_path, launch)
        assert command(tmp_path, "runs", "stop", "small").returncode == 0
        assert launch.wait(60) == 0, launch.log()
        until_gone(held, "small")
        bystander.reload()
        assert bystander.status == "running"
    finally:
        bystander.remove(force=True)
        if launch.process.poll() is None:
            launch.kill()
    reached = check_history(tmp_path)
    assert reached >= UPDATES
    for fault in ("reset", "step", "hang"):
        note = f'{{"fault": "{fault}"}} is excluded from the warm-up'
        assert json.dumps(note)[1:-1] in (tmp_path / "log.txt").read_text(), "an event of `--json`"

    ended: dict[str, Counter[str]] = {fault: Counter() for fault in KINDS}
    with open_database(url(tmp_path)).read() as conn:
        assert queries.find_run(conn, "small").status == "stopped"
        assert (saved := queries.latest_checkpoint(conn, "small")) is not None
        assert saved.update == reached
        rows = conn.execute(
            text(
                "SELECT CASE WHEN task.env_id LIKE '%TinyCode%' THEN 'code'"
                " ELSE json_extract(task.options, '$.fault') END, trajectory.status, trajectory.error"
                " FROM trajectory JOIN rollout_group ON rollout_group.no = group_no JOIN task ON task.no = task_no"
            )
        ).all()
        for fault, status, error in rows:
            ended[fault or ""][status] += 1
            assert status in ("completed", "truncated") or error, (fault, status)
        for fault, status in FAULTS.items():
            assert ended[fault][status] >= 1, (fault, ended[fault])
            assert set(ended[fault]) <= {status, "cancelled"}, (fault, ended[fault])
        assert set(ended[""]) <= {"completed", "truncated", "cancelled"}
        assert ended["flaky"]["completed"] >= 1
        assert ended[CODE]["env_error"] >= 1
        assert ended[CODE]["completed"] + ended[CODE]["truncated"] >= 1
        assert conn.execute(text("SELECT count(*) FROM trajectory WHERE extras LIKE '%sha256:%'")).scalar_one() > 0

        trained = text("SELECT DISTINCT status FROM batch_item JOIN trajectory ON trajectory.no = trajectory_no")
        assert set(conn.execute(trained).scalars()) <= {"completed", "truncated"}
        rewards = text("SELECT max(json_extract(metrics, '$.reward')) FROM train_batch")
        assert conn.execute(rewards).scalar_one() < 10
        assert (conn.execute(text("SELECT max(size) FROM blob")).scalar_one() or 0) < 100_000


def the_node_of_sandboxes_dies(folder: Path, launch: Launch) -> set[str]:
    """The containers of a node actor go with it, their episodes fail, and it starts again; return its new ones."""
    until = time.monotonic() + 120
    while len(leased := containers("small")) < LEASES:
        assert time.monotonic() < until, f"only {len(leased)} sandboxes"
        time.sleep(0.2)
    node = launch.part("SandboxNode")  # before the wait: the search takes longer than the rest of an episode
    while in_database(folder, CODE_PLAYS) < EPISODES:
        assert time.monotonic() < until, f"fewer than {EPISODES} episodes play in sandboxes"
        time.sleep(0.02)
    before = in_database(folder, CODE_FAILED)
    node.kill()
    until_gone(leased, "small")
    while in_database(folder, CODE_FAILED) == before:
        assert time.monotonic() < until, "the death of the node actor failed no episode"
        time.sleep(0.2)
    while not (held := containers("small")):
        assert time.monotonic() < until, "the restarted node actor started no sandbox"
        time.sleep(0.2)
    return held


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("_importable")
def test_nothing_but_bad_worlds_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    launch = Launch.of(tmp_path, config=config(tmp_path, "step", "nan", warmup=0))
    assert launch.wait(300) == 1, launch.log()
    assert f"{FAILURES_TO_GIVE_UP} consecutive groups failed" in launch.log()
    assert "Traceback" not in launch.log().rpartition("consecutive groups failed")[0]
    with open_database(url(tmp_path)).read() as conn:
        row = queries.find_run(conn, "small")
        assert row.status == "failed"
        assert "consecutive groups failed" in row.error
        assert conn.execute(text("SELECT count(*) FROM train_batch")).scalar_one() == 0


def _name(process: object) -> str:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
