"""The trust region keeps a step within its bound, with as few measurements as that takes."""

import pytest
import torch
from turnwise.trainer.learner.optimizer import TOLERANCE, backtrack

MAX_KL = 0.01


@pytest.mark.parametrize(
    ("step", "power", "measurements"),
    [(0.09, 2, 1), (0.1 + 1e-5, 2, 1), (0.15, 2, 2), (1.0, 2, 2), (0.5, 3, 2)],
    ids=["within", "on the bound", "beyond", "far beyond", "steep"],
)
def test_a_step_ends_within_the_bound(step: float, power: int, measurements: int) -> None:
    before = torch.tensor([1.0, -2.0])
    parameter = before + torch.tensor([step, 0.0])
    measured: list[float] = []

    def kl() -> float:
        measured.append(float((parameter - before).norm()) ** power)
        return measured[-1]

    scale = backtrack([parameter], [before], kl, MAX_KL)
    assert float((parameter - before)[0]) == pytest.approx(scale * step)
    assert len(measured) == measurements
    assert kl() <= (1 + TOLERANCE) * MAX_KL
