"""The learning rate of an update: a linear rise over the first updates, then a decay along the run."""

from collections.abc import Callable, Mapping
from math import cos, pi

from ...config.sections import LearnerConfig

SHAPES: Mapping[str, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: 1 - progress,
    "cosine": lambda progress: (1 + cos(pi * progress)) / 2,
    "quadratic": lambda progress: 1 - progress**2,
}
"""Share of the way from ``min_learning_rate`` to ``learning_rate``, by the share of the schedule that has passed. The
first three are those of the same name in `transformers`, which count steps; these also follow a clock."""


def learning_rate(config: LearnerConfig, progress: float, update: int) -> float:
    """Return the learning rate.

    Args:
        progress: share of the schedule that has passed, 0 to 1.
        update: updates done before this one; the rate rises over the first ``lr_warmup_steps``.
    """
    peak, least = config.learning_rate, config.min_learning_rate
    rate = least + SHAPES[config.lr_schedule](progress) * (peak - least)
    return rate * min(1.0, (update + 1) / (config.lr_warmup_steps + 1))
