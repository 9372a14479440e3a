"""Metrics of several micro-batches are reduced as if all values were in one."""

import torch
from turnwise.trainer.algorithms.losses.base import Metric
from turnwise.trainer.learner.optimizer import MetricReducer


def test_each_metric_is_reduced_over_all_values() -> None:
    reducer = MetricReducer()
    for values in ([1.0, 2.0], [6.0]):
        tensor = torch.tensor(values, requires_grad=True)
        reducer.add({"s": Metric(tensor, "sum"), "m": Metric(tensor), "x": Metric(tensor, "max")})
    reducer.add({"m": Metric(torch.empty(0)), "share": Metric(torch.tensor([True, False]))})
    assert reducer.reduced() == {"s": 9.0, "m": 3.0, "x": 6.0, "share": 0.5}


def test_merged_states_are_as_one_reducer() -> None:
    values = [torch.tensor([1.0, 2.0]), torch.tensor([]), torch.tensor([9.0])]
    whole, merged = MetricReducer(), MetricReducer()
    for one in values:
        own = MetricReducer()
        for reducer in (whole, own):
            reducer.add({"a": Metric(one, "mean"), "b": Metric(one, "max"), "c": Metric(one, "sum")})
        merged.merge(own.state())
    assert merged.reduced() == whole.reduced() == {"a": 4.0, "b": 9.0, "c": 12.0}
