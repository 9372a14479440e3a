"""A model with experts trains, is saved with the names of its checkpoint on the hub, and resumes."""

from pathlib import Path
from random import Random

import pytest
import torch
from safetensors.torch import load_file
from turnwise.tests.trainer.learner.model.parity.families import new_family_model
from turnwise.tests.trainer.learner.train_samples import train_samples
from turnwise.trainer.algorithms.losses.base import PolicyLoss
from turnwise.trainer.algorithms.proximal.base import ProximalPolicy
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner

CONFIG = LearnerConfig(learning_rate=1e-2, lr_warmup_steps=0)


def learner(model: Path) -> Learner:
    return Learner(model, CONFIG, PolicyLoss.build_default(), ProximalPolicy.build_default(), 0.7)


def update(one: Learner, number: int) -> None:
    one.update(train_samples(number), 0.0, number, Random(number))


@pytest.mark.parametrize(
    ("family", "name"),
    [
        ("qwen3_moe", "model.layers.0.mlp.experts.7.gate_proj.weight"),
        ("gpt_oss", "model.layers.0.mlp.experts.gate_up_proj"),
    ],
)
def test_experts_are_trained_saved_and_resumed(tmp_path: Path, family: str, name: str) -> None:
    model = new_family_model(family, tmp_path / "model")
    one = learner(model)
    update(one, 0)
    saved = tmp_path / "saved"
    saved.mkdir()
    one.save(saved)
    before, after = (load_file(folder / "model.safetensors") for folder in (model, saved))
    assert before.keys() == after.keys()
    assert not torch.equal(before[name], after[name])
    again = learner(saved)
    again.load_optimizer(saved)
    for each in (one, again):
        update(each, 1)
    for (label, value), (_, other) in zip(one.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(value, other), label
