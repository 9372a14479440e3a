"""Activation checkpointing changes memory only; models without marked layers are refused."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from turnwise.agents.tiny_model import new_model
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.learner.train_samples import VOCABULARY, train_samples
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.recompute import Recompute
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.backends.local import Learner
from turnwise.trainer.learner.model.activation_checkpointing import checkpoint_activations
from turnwise.trainer.learner.packing import pack

SAMPLES = train_samples(1)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_model(tmp_path_factory.mktemp("m") / "model", VOCABULARY, hidden=32, heads=2, layers=4, seed=3)


def learner(model: Path, **settings: Any) -> Learner:
    config = LearnerConfig(learning_rate=1e-2, lr_warmup_steps=0, max_tokens_per_micro_batch=24, **settings)
    return Learner(model, config, DecoupledPPO(entropy_coef=0.1), Recompute(), 1.0)


def test_an_update_has_the_same_weights(model: Path) -> None:
    plain, recomputed = learner(model), learner(model, activation_checkpointing=True)
    for update in range(2):
        metrics = [one.update(SAMPLES, 0.0, update, Random(0)) for one in (plain, recomputed)]
        assert metrics[0] == metrics[1]
    assert plain.weights_hash() == recomputed.weights_hash()


def test_fewer_activations_are_kept(model: Path) -> None:
    kept = []
    for settings in ({}, {"activation_checkpointing": True}):
        sizes: list[int] = []

        def keep(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            learner(model, **settings)._scorer(pack(SAMPLES))
        kept.append(sum(sizes))
    assert kept[1] < kept[0] / 3


def test_a_model_without_marked_layers_is_refused() -> None:
    with pytest.raises(TurnwiseError, match=r"`Linear` marks no decoder layers, so neither `learner\.activation"):
        checkpoint_activations(torch.nn.Linear(1, 1))


def test_bfloat16_keeps_weights_and_gradients_in_float32(model: Path) -> None:
    exact, rounded = learner(model), learner(model, dtype="bfloat16")
    tokens = pack(SAMPLES)
    difference = (exact.compute_logprobs(tokens) - rounded.compute_logprobs(tokens)).abs().max()
    assert 1e-6 < difference < 0.05
    rounded.update(SAMPLES, 0.0, 0, Random(0))
    parameters = list(rounded.model.parameters())
    assert {one.dtype for one in parameters} == {one.grad.dtype for one in parameters} == {torch.float32}
