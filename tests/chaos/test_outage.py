"""Failures of the world, injected at a rate that a file tells: what they change is nothing but who is absent."""

import os
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import text
from turnwise.records import SCORED_STATUSES, Group
from turnwise.store import queries
from turnwise.store.database import open_database
from turnwise.tests.chaos.harness import Launch, check_finished, updates, url
from turnwise.trainer.algorithms.advantages.grpo import GRPO

WORLD = """
import random
from pathlib import Path

import gymnasium
from turnwise.envs.text.env import TextSiteEnv

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


def launch(folder: Path, monkeypatch: pytest.MonkeyPatch, rate: float, updates_wanted: int, tasks: int = 0) -> Launch:
    (folder / "flaky_mod.py").write_text(WORLD)
    (folder / "rate").write_text(str(rate))
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    world = f'[{{ id = "flaky_mod:Flaky-v0", options = {{ rate = "{folder}/rate" }} }}]'
    return Launch.of(folder, f"environments={world}", f"max_steps={updates_wanted}", f"evaluation.tasks={tasks}")


def groups_trained(folder: Path) -> list[tuple[Group, dict[str, float]]]:
    """The groups that updates were made of, and the mean advantage that each trajectory was recorded with."""
    database = open_database(url(folder))
    with database.read() as conn:
        rows = conn.execute(text("SELECT group_id FROM batch_group WHERE NOT abandoned")).scalars().all()
        items = conn.execute(text("SELECT trajectory_id, mean_advantage FROM batch_item WHERE NOT abandoned")).all()
    advantages: dict[str, float] = dict(tuple(item) for item in items)
    groups = queries.load_groups(database, list(rows))
    return [
        (group, {one.id: advantages[one.id] for one in group.trajectories if one.id in advantages}) for group in groups
    ]


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "rate", [pytest.param(0.05, marks=pytest.mark.soak), 0.2, pytest.param(0.5, marks=pytest.mark.soak)]
)
def test_failed_members_change_nothing_but_by_their_absence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: float
) -> None:
    run = launch(tmp_path, monkeypatch, rate, 6)
    assert run.wait(300) == 0, run.log()
    check_finished(tmp_path, updates_wanted=6)
    database = open_database(url(tmp_path))
    with database.read() as conn:
        failed = conn.execute(text("SELECT count(*) FROM trajectory WHERE status = 'env_error'")).scalar_one()
    assert failed > 0
    compared = 0
    for group, recorded in groups_trained(tmp_path):
        there = [one for one in group.trajectories if one.status in SCORED_STATUSES]
        assert len(there) >= 2
        assert set(recorded) <= {one.id for one in there}
        credit = GRPO()([[step.reward for step in one.steps] for one in there])
        for one, turns in zip(there, credit, strict=True):
            if one.id in recorded:
                assert recorded[one.id] == pytest.approx(turns[0], abs=1e-6)
                compared += 1
    assert compared > 20


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_in_an_outage_nothing_is_learned_and_the_run_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(tmp_path, monkeypatch, 0.0, 200)
    try:
        run.until_update(3, 120)
        (tmp_path / "rate").write_text("1.0")
        time.sleep(10)  # what was ready or leased is still learned from
        before, opened = updates(tmp_path), groups_opened(tmp_path)
        time.sleep(15)
        assert updates(tmp_path) == before
        assert groups_opened(tmp_path) - opened <= 8
        (tmp_path / "rate").write_text("0.0")
        run.until_update(before + 5, 90)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait(120) == 128 + signal.SIGTERM, run.log()
        assert "probing one group at a time" in (tmp_path / "log.txt").read_text()
    finally:
        if run.process.poll() is None:
            run.kill()


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_an_outage_during_the_last_evaluation_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = launch(tmp_path, monkeypatch, 0.0, 4, tasks=200)
    try:
        run.until_update(4, 120)
        (tmp_path / "rate").write_text("1.0")
        until = time.monotonic() + 120
        while "episodes failed; again in" not in run.log():
            assert time.monotonic() < until, run.log()
            time.sleep(0.1)
        (tmp_path / "rate").write_text("0.0")
        assert run.wait(240) == 0, run.log()
    finally:
        if run.process.poll() is None:
            run.kill()
    check_finished(tmp_path, updates_wanted=4)


def groups_opened(folder: Path) -> int:
    with open_database(url(folder)).read() as conn:
        return int(conn.execute(text("SELECT count(*) FROM rollout_group")).scalar_one())
