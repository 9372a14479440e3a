"""Broken environments (they raise, hang, return NaN or fifty megabytes), next to healthy ones or alone in a run.

Every bad world pays a reward that no healthy one pays before it goes wrong: had a failure been taken for an outcome,
the batches' rewards would show it.
"""

import itertools
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import text
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import Launch, check_history, command, descendants, url
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
FAULTS = {"reset": "env_error", "step": "env_error", "hang": "timeout", "nan": "env_error", "large": "env_error"}
KINDS = {"": 4.0, "flaky": 2.0, **dict.fromkeys(FAULTS, 1.0)}
AT_ONCE = 8
UPDATES = 3
MAX_STEPS = 4000


def environment(fault: str) -> str:
    options = f'fault = "{fault}"' if fault else 'family = "find"'
    env_id = "faulty_mod:World-v0" if fault else "turnwise/TextSite-v0"
    return f'[[environments]]\nid = "{env_id}"\noptions = {{ {options} }}\nweight = {KINDS[fault]}\n'


def config(folder: Path, *faults: str, seed: int = 0, warmup: int = 30) -> Path:
    """A run of these worlds, with the folder of their module where Ray's workers look for modules."""
    (folder / "faulty_mod.py").write_text(WORLDS)
    rest = (
        f'name = "small"\nseed = {seed}\nmax_steps = {MAX_STEPS}\n'
        "group_filters = []\n[rollout]\ngroups_per_batch = 4\ngroup_size = 4\n"
        f"max_concurrent_groups = {AT_ONCE}\nmax_staleness = 1\n"
        "reset_timeout_s = 8\nstep_timeout_s = 3\n"
        "[horizon]\nmax_turns = 3\nmax_tokens_per_turn = 4\nmax_context = 256\n[learner]\nlearning_rate = 1e-3\n"
        "[engine]\nkv_cache_memory_bytes = 33_554_432\n[model.new]\nhidden = 64\nheads = 2\n"
        f"[sft_warmup]\nsteps = {warmup}\nbatch_size = 4\n[evaluation]\ntasks = 0\n"
    )
    path = folder / "worlds.toml"
    path.write_text(rest + "".join(map(environment, faults)))
    return path


def seed_that_draws_all() -> int:
    """One with which every kind of world is among the groups that open first."""

    def drawn(seed: int) -> set[str]:
        streams = [Streams(seed).of_draw("task_sampler", draw) for draw in range(AT_ONCE)]
        return {rng.choices(list(KINDS), list(KINDS.values()))[0] for rng in streams}

    return next(seed for seed in itertools.count() if drawn(seed) == set(KINDS))


@pytest.fixture
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path) + os.pathsep + os.environ.get("PYTHONPATH", ""))


@pytest.mark.chaos
@pytest.mark.timeout(500)
@pytest.mark.usefixtures("_importable")
def test_bad_worlds_beside_healthy_ones(tmp_path: Path) -> None:
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
        assert command(tmp_path, "runs", "stop", "small").returncode == 0
        assert launch.wait(60) == 0, launch.log()
    finally:
        if launch.process.poll() is None:
            launch.kill()
    reached = check_history(tmp_path)
    assert reached >= UPDATES
    for fault in ("reset", "step", "hang"):
        assert f'{{"fault": "{fault}"}} is excluded from the format warm-up' in launch.log()

    ended: dict[str, Counter[str]] = {fault: Counter() for fault in KINDS}
    with open_database(url(tmp_path)).read() as conn:
        assert queries.run_row(conn, "small")["status"] == "stopped"
        assert (saved := queries.latest_checkpoint(conn, "small")) is not None
        assert saved.update == reached
        rows = conn.execute(
            text(
                "SELECT json_extract(task.options, '$.fault') AS fault, trajectory.status, trajectory.error"
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

        trained = text("SELECT DISTINCT status FROM batch_item JOIN trajectory ON trajectory.no = trajectory_no")
        assert set(conn.execute(trained).scalars()) <= {"completed", "truncated"}
        rewards = text("SELECT max(json_extract(metrics, '$.reward')) FROM train_batch")
        assert conn.execute(rewards).scalar_one() < 10
        assert (conn.execute(text("SELECT max(size) FROM blob")).scalar_one() or 0) < 100_000


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("_importable")
def test_nothing_but_bad_worlds_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    launch = Launch.of(tmp_path, config=config(tmp_path, "step", "nan", warmup=0))
    assert launch.wait(300) == 2, launch.log()
    assert f"{FAILURES_TO_GIVE_UP} consecutive groups failed" in launch.log()
    assert "Traceback" not in launch.log().rpartition("consecutive groups failed")[0]
    with open_database(url(tmp_path)).read() as conn:
        row = queries.run_row(conn, "small")
        assert row["status"] == "failed"
        assert "consecutive groups failed" in row["error"]
        assert conn.execute(text("SELECT count(*) FROM train_batch")).scalar_one() == 0


def _name(process: object) -> str:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
