"""A world that fails at a rate read from a file, an outage of it, and what must hold of the members that failed."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text
from turnwise.records import SCORED_STATUSES, Group, ScoredGroup
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import reading, updates, url
from turnwise.trainer.algorithms.advantages.grpo import GRPO

WORLD = """
import random
from pathlib import Path

import gymnasium
from turnwise.envs.worlds.tiny.text import TextSiteEnv

dice = random.Random()


class Flaky(TextSiteEnv):
    def __init__(self, rate, family="find"):
        super().__init__(family)
        self._rate = Path(rate)

    def step(self, action):
        if dice.random() < float(self._rate.read_text()) / 4:
            raise ConnectionError("the sandbox is gone")
        return super().step(action)

    def reset(self, *, seed=None, options=None):
        if float(self._rate.read_text()) >= 1:
            raise ConnectionError("no sandbox to be had")
        return super().reset(seed=seed, options=options)


gymnasium.register("Flaky-v0", entry_point=Flaky, disable_env_checker=True)
"""
GROUPS_PER_BATCH = 4
OPENED = "SELECT count(*) FROM rollout_group"
READY = "SELECT count(*) FROM rollout_group WHERE state IN ('ready', 'leased')"
FAILED = "SELECT count(*) FROM trajectory WHERE status = 'env_error'"
WAIT_S = 120.0


def flaky_world(folder: Path, monkeypatch: pytest.MonkeyPatch, rate: float) -> str:
    """Write the world into ``folder``; return the change of a configuration that selects it."""
    (folder / "flaky_mod.py").write_text(WORLD)
    set_rate(folder, rate)
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return f'environments=[{{ id = "flaky_mod:Flaky-v0", options = {{ rate = "{folder}/rate" }} }}]'


def set_rate(folder: Path, rate: float) -> None:
    """Let this share of the episodes fail from now on; with 1, no environment starts."""
    (folder / "new").write_text(str(rate))
    (folder / "new").rename(folder / "rate")


def until(condition: Callable[[], bool], name: str, alive: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds in a run that is alive."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert alive(), f"the run ended before: {name}"
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {name}"
        time.sleep(0.25)


def outage(folder: Path, printed: Callable[[], str], alive: Callable[[], bool]) -> None:
    """All episodes fail for a time: no update is made of what failed, one group at a time is tried, updates go on."""
    set_rate(folder, 1.0)
    until(lambda: "probing one group at a time" in printed(), "the probes begin", alive)
    until(lambda: rows(folder, READY) < GROUPS_PER_BATCH, "the batches that were ready are consumed", alive)
    before, opened = updates(folder), rows(folder, OPENED)
    time.sleep(4)
    assert updates(folder) == before
    assert rows(folder, OPENED) - opened <= 8
    set_rate(folder, 0.0)
    until(lambda: updates(folder) >= before + 3, "three updates after the outage", alive)


def rows(folder: Path, query: str) -> int:
    with reading(folder) as conn:
        return int(conn.execute(text(query)).scalar_one())


def check_members(folder: Path) -> None:
    """Each group trained on the members that ended in order, with the advantages of those members alone."""
    assert rows(folder, FAILED) > 0
    compared = 0
    for group, recorded in groups_trained(folder):
        there = [one for one in group.trajectories if one.status in SCORED_STATUSES]
        assert len(there) >= 2
        assert set(recorded) <= {one.id for one in there}
        rewards = [[step.reward for step in one.steps] for one in there]
        credit = GRPO().of_group(ScoredGroup(replace(group, trajectories=there), rewards))
        for one, turns in zip(there, credit, strict=True):
            if one.id in recorded:
                assert recorded[one.id] == pytest.approx(turns[0], abs=1e-6)
                compared += 1
    assert compared > 20


def groups_trained(folder: Path) -> list[tuple[Group, dict[str, float]]]:
    """The groups that updates were made of, and the mean advantage that each trajectory was recorded with."""
    database = open_database(url(folder))
    with database.read() as conn:
        trained = "SELECT g.id FROM batch_group b JOIN rollout_group g ON g.no = b.group_no WHERE NOT b.abandoned"
        groups_of = conn.execute(text(trained)).scalars().all()
        used = "SELECT t.id, mean_advantage FROM batch_item i JOIN trajectory t ON t.no = trajectory_no"
        items = conn.execute(text(f"{used} WHERE NOT i.abandoned")).all()
    advantages: dict[str, float] = dict(tuple(item) for item in items)
    groups = queries.load_groups(database, list(groups_of))
    database.close()
    return [
        (group, {one.id: advantages[one.id] for one in group.trajectories if one.id in advantages}) for group in groups
    ]
