"""The parts of an optimizer step besides the model: AdamW's state, the learning rate, the trust region and the metrics.

To add a shape of the learning rate, add it to ``SHAPES`` and to ``learner.lr_schedule``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import cos, pi, sqrt
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..algorithms.losses.base import Metric
from ..config.sections import LearnerConfig


def optimizer_tensors(model: torch.nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return AdamW's state as tensors named ``parameter/moment``."""
    return {
        f"{name}/{key}": torch.as_tensor(value).contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def set_optimizer_tensors(model: torch.nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the tensors of ``optimizer_tensors`` into the optimizer, on the device of each parameter."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, moment = key.rpartition("/")
        optimizer.state[parameters[name]][moment] = value.to(parameters[name].device)


@contextmanager
def moments_on(optimizer: Optimizer, device: str) -> Iterator[None]:
    """Copy the moments to ``device`` for the block, and back to the host's memory after it."""
    move_moments(optimizer, device)
    try:
        yield
    finally:
        move_moments(optimizer, "cpu")


def move_moments(optimizer: Optimizer, device: str) -> None:
    """Move the moments to ``device``; the step counts stay where the fused step of AdamW expects them."""
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.ndim:
                state[name] = value.to(device)


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


MAX_BACKTRACKS = 3
"""Most times that one optimizer step is shortened."""
TOLERANCE = 0.05
"""Share of the bound by which a step may exceed it. A shortened step lies on the bound, give or take; without a
tolerance it would be shortened by nothing and measured again, which costs a forward pass."""


def backtrack(parameters: Sequence[Tensor], before: Sequence[Tensor], kl: Callable[[], float], max_kl: float) -> float:
    """Shorten an optimizer step that exceeds the KL bound, and return the scale of the step that remains.

    A backtracking line search as in TRPO (Schulman et al. 2015, arXiv:1502.05477), on the step's own tokens. The KL
    divergence grows with the square of a small step, so the scale is the square root of ``max_kl / kl``. After a large
    step one search falls short, so it is repeated.

    Args:
        parameters: changed in place.
        before: the parameters before the step.
        kl: returns the divergence that the present parameters cause, in nats per token.
    """
    scale = 1.0
    for _ in range(MAX_BACKTRACKS):
        divergence = kl()
        if divergence <= (1 + TOLERANCE) * max_kl:
            break
        factor = sqrt(max_kl / divergence)
        scale *= factor
        with torch.no_grad():
            for parameter, value in zip(parameters, before, strict=True):
                parameter.lerp_(value, 1 - factor)
    return scale


class MetricReducer:
    """Sums, means and maxima over the values of every micro-batch that was added."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, float, int, float]] = {}
        """Reduction, sum, count and maximum per metric."""

    def add(self, metrics: Mapping[str, Metric]) -> None:
        """Add the metrics of one micro-batch; a metric without values adds nothing."""
        for name, metric in metrics.items():
            values = metric.values.detach()
            if values.numel():
                values = values.to(torch.promote_types(values.dtype, torch.float32))
                state = metric.reduction, float(values.sum()), values.numel(), float(values.max())
                self.merge({name: state})

    def state(self) -> Mapping[str, Sequence[Any]]:
        """Return reduction, sum, count and maximum per metric, as JSON values."""
        return self._found

    def merge(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Add the values behind the ``state`` of another reducer."""
        for name, (reduction, total, count, largest) in state.items():
            _, before, counted, most = self._found.get(name, ("", 0.0, 0, float("-inf")))
            self._found[name] = reduction, before + total, counted + count, max(most, largest)

    def reduced(self) -> dict[str, float]:
        """Return the number of each metric."""
        return {
            name: {"sum": total, "mean": total / count, "max": largest}[reduction]
            for name, (reduction, total, count, largest) in self._found.items()
        }
