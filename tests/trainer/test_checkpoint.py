"""Checkpoints are there whole or not at all, and say which file is broken."""

import json
from pathlib import Path

import pytest
import torch
from turnwise.agents.model import new_model
from turnwise.trainer import checkpoint
from turnwise.trainer.config import LearnerConfig
from turnwise.trainer.learner import Learner
from turnwise.trainer.loss import Decoupled
from turnwise.trainer.proximal import Recompute


@pytest.fixture
def learner(tmp_path: Path) -> Learner:
    model = new_model(tmp_path / "model", ["a", "b"], hidden=16, heads=2)
    made = Learner(model, LearnerConfig(), Decoupled(), Recompute(), 1.0)
    for parameter in made.model.parameters():
        parameter.grad = torch.randn_like(parameter)
    made.optimizer.step()
    return made


def save(learner: Learner, tmp_path: Path, version: int = 3) -> Path:
    state = {"update": 3, "version": version}
    return checkpoint.save(tmp_path / "c", version, learner.model, learner.optimizer, tmp_path / "model", state)


def test_a_checkpoint_restores_weights_and_optimiser(learner: Learner, tmp_path: Path) -> None:
    path = save(learner, tmp_path)
    assert checkpoint.verify(path) == {"update": 3, "version": 3}
    again = Learner(path, LearnerConfig(), Decoupled(), Recompute(), 1.0)
    checkpoint.load_into(path, again.model, again.optimizer)
    for one in (learner, again):
        torch.manual_seed(0)
        for parameter in one.model.parameters():
            parameter.grad = torch.randn_like(parameter)
        one.optimizer.step()
    for ours, theirs in zip(learner.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "name", ["model.safetensors", "training/optimizer.safetensors", "training/state.json", "tokenizer.json"]
)
@pytest.mark.parametrize("harm", ["truncate", "flip", "remove"])
def test_a_broken_file_is_named(learner: Learner, tmp_path: Path, name: str, harm: str) -> None:
    path = save(learner, tmp_path)
    data = (path / name).read_bytes()
    if harm == "remove":
        (path / name).unlink()
    else:
        cut = data[: len(data) // 2] if harm == "truncate" else data[:-1] + bytes([data[-1] ^ 1])
        (path / name).write_bytes(cut)
    with pytest.raises(checkpoint.CheckpointBroken, match=name):
        checkpoint.verify(path)


def test_what_a_killed_writer_left_aside_is_not_a_checkpoint(learner: Learner, tmp_path: Path) -> None:
    path = save(learner, tmp_path)
    aside = path.parent / ".writing-4"
    aside.mkdir()
    (aside / "config.json").write_text(json.dumps({}))
    with pytest.raises(checkpoint.CheckpointBroken):
        checkpoint.verify(aside)
    checkpoint.prune(path.parent, {path.name})
    assert [one.name for one in path.parent.iterdir()] == [path.name]
