"""The loss and the task sampler of examples/components train, and stay short."""

import json
from pathlib import Path
from random import Random

import pytest
from turnwise.agents.tiny_model import new_model
from turnwise.envs.tasks import make_task
from turnwise.records import Group, Horizon, ScoredGroup, Status, Trajectory
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.task_samplers.base import WeightedEnvironment
from turnwise.trainer.config.loading import parse_config
from turnwise.trainer.learner.backends.local import Learner

EXAMPLES = Path(__file__).parents[3] / "examples" / "components"


def test_the_loss_shown_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (EXAMPLES / "losses.py").read_text()
    assert len(code.splitlines()) <= 30
    (tmp_path / "documented_losses.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"name": "documented_losses:CISPO", "ratio_cap": 1.5}
    config = parse_config({"name": "t", "environments": [{"id": "e"}], "loss": chosen})
    model = new_model(tmp_path / "model", VOCABULARY, hidden=32, heads=2)
    learner = Learner(model, config.learner, config.loss, config.proximal, 1.0)
    metrics = learner.update(train_samples(0), 0.0, 0, Random(0))
    assert metrics["grad_norm"] > 0
    assert 0 < metrics["loss/capped_fraction"] < 1
    assert metrics["loss/ratio_max"] > 1.5


def test_the_task_sampler_shown_learns_and_keeps_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (EXAMPLES / "tasks.py").read_text()
    assert len(code.splitlines()) <= 50
    (tmp_path / "documented_tasks.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    chosen = {"name": "documented_tasks:Unsolved", "candidates": 64}
    sampler = parse_config({"name": "t", "environments": [{"id": "e"}], "task_sampler": chosen}).task_sampler
    pool = [WeightedEnvironment("turnwise/TextSite-v0", seeds=[0, 1])]
    easy, hard = (make_task("turnwise/TextSite-v0", seed, "train", {}) for seed in (0, 1))
    for task, rewards in ((easy, [1.0, 1.0]), (hard, [1.0, 0.0])):
        members = [Trajectory(f"{task.id}-{i}", "r", "g", i, 0, Status.COMPLETED) for i in range(2)]
        group = Group("g", "r", task, Horizon(1, 1, 1, 2), 2, trajectories=members)
        sampler.observe(ScoredGroup(group, [[reward] for reward in rewards]))
    assert sampler.metrics() == {"solved": 1}
    again = type(sampler).model_validate({"candidates": 64})
    again.load_state_dict(json.loads(json.dumps(sampler.state_dict())))
    for one in (sampler, again):
        assert {one.propose(pool, Random(seed)).id for seed in range(8)} == {hard.id}
