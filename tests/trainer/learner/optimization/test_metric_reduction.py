"""Metrics of several micro-batches are reduced as if all values were in one."""

import torch
from turnwise.trainer.algorithms.losses.base import Metric
from turnwise.trainer.learner.optimization.metric_reduction import MetricReducer


def test_each_metric_is_reduced_over_all_values() -> None:
    reducer = MetricReducer()
    for values in ([1.0, 2.0], [6.0]):
        tensor = torch.tensor(values, requires_grad=True)
        reducer.add({"s": Metric(tensor, "sum"), "m": Metric(tensor), "x": Metric(tensor, "max")})
    reducer.add({"m": Metric(torch.empty(0)), "share": Metric(torch.tensor([True, False]))})
    assert reducer.reduced() == {"s": 9.0, "m": 3.0, "x": 6.0, "share": 0.5}
