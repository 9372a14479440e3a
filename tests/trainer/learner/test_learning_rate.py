"""The learning rate rises, then falls along the chosen shape; shapes of `transformers` have its values."""

from typing import Literal

import pytest
import torch
from transformers import get_scheduler
from turnwise.trainer.config.sections import LearnerConfig
from turnwise.trainer.learner.optimizer import SHAPES, learning_rate

STEPS = 40


@pytest.mark.parametrize("name", ["constant", "linear", "cosine"])
def test_a_shape_has_the_values_of_transformers(name: str) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_scheduler(name, optimizer, num_warmup_steps=0, num_training_steps=STEPS)
    for step in range(STEPS):
        assert SHAPES[name](step / STEPS) == pytest.approx(scheduler.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize(("shape", "half"), [("constant", 9.0), ("linear", 5.0), ("cosine", 5.0), ("quadratic", 7.0)])
def test_the_rate_rises_and_falls_to_the_least(
    shape: Literal["constant", "linear", "cosine", "quadratic"], half: float
) -> None:
    config = LearnerConfig(learning_rate=9.0, min_learning_rate=1.0, lr_warmup_steps=2, lr_schedule=shape)
    assert [learning_rate(config, 0.0, update) for update in range(4)] == pytest.approx([3.0, 6.0, 9.0, 9.0])
    assert learning_rate(config, 0.5, 100) == pytest.approx(half)
    assert learning_rate(config, 1.0, 100) == pytest.approx(9.0 if shape == "constant" else 1.0)
