"""The learning rate of an update: a linear rise over the first updates, then a decay along the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import cos, pi
from typing import TYPE_CHECKING

from ...config.sections import LearnerConfig

if TYPE_CHECKING:
    from torch.optim import Optimizer

SHAPES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1 - progress,
    "cosine": lambda progress: (1 + cos(pi * progress)) / 2,
    "quadratic": lambda progress: 1 - progress**2,
}
"""Share of the way from ``min_learning_rate`` to ``learning_rate``, by the share of the schedule that has passed.
Without a rise, the first three have the values of the same name in `transformers`. Those count steps, and begin to fall
after the rise; these also follow a clock, so they fall from the start of the run, and the rise is a factor."""


def learning_rate(config: LearnerConfig, progress: float, update: int) -> float:
    """Return the learning rate.

    Args:
        progress: share of the schedule that has passed, 0 to 1.
        update: updates done before this one; the rate rises over the first ``lr_warmup_steps``.
    """
    peak, least = config.learning_rate, config.min_learning_rate
    rate = least + SHAPES[config.lr_schedule](progress) * (peak - least)
    return rate * min(1.0, (update + 1) / (config.lr_warmup_steps + 1))


@contextmanager
def scaled_learning_rate(optimizer: Optimizer, scale: float) -> Iterator[None]:
    """Multiply the learning rate of ``optimizer`` by ``scale`` inside the ``with`` block."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * scale
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
