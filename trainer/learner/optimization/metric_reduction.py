"""Reduce the metrics of micro-batches to one number each."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ...algorithms.losses.base import Metric


class MetricReducer:
    """Sums, means and maxima over the values of every micro-batch that was added."""

    def __init__(self) -> None:
        self._reductions: dict[str, str] = {}
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._maxima: dict[str, float] = {}

    def add(self, metrics: Mapping[str, Metric]) -> None:
        """Add the metrics of one micro-batch; a metric without values adds nothing."""
        for name, metric in metrics.items():
            values = metric.values.detach()
            if not values.numel():
                continue
            values = values.to(torch.promote_types(values.dtype, torch.float32))
            self._reductions[name] = metric.reduction
            self._sums[name] = self._sums.get(name, 0.0) + float(values.sum())
            self._counts[name] = self._counts.get(name, 0) + values.numel()
            self._maxima[name] = max(self._maxima.get(name, float("-inf")), float(values.max()))

    def state(self) -> dict[str, list[Any]]:
        """Return reduction, sum, count and maximum per metric, as JSON values."""
        return {
            name: [reduction, self._sums[name], self._counts[name], self._maxima[name]]
            for name, reduction in self._reductions.items()
        }

    def merge(self, state: Mapping[str, Sequence[Any]]) -> None:
        """Add the values behind the ``state`` of another reducer."""
        for name, (reduction, total, count, largest) in state.items():
            self._reductions[name] = reduction
            self._sums[name] = self._sums.get(name, 0.0) + total
            self._counts[name] = self._counts.get(name, 0) + count
            self._maxima[name] = max(self._maxima.get(name, float("-inf")), largest)

    def reduced(self) -> dict[str, float]:
        """Return the number of each metric."""
        numbers = {}
        for name, reduction in self._reductions.items():
            mean = self._sums[name] / self._counts[name]
            numbers[name] = {"sum": self._sums[name], "mean": mean, "max": self._maxima[name]}[reduction]
        return numbers
