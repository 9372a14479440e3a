"""Rates in words name the tasks of a pass@k that not every task has."""

from turnwise.base.rates import Rate
from turnwise.console.terminal.rates import rate_fields


def test_a_k_that_not_all_tasks_reach_has_its_number_of_tasks() -> None:
    shown = rate_fields(Rate.of([(4, 4)] * 19 + [(0, 3)]))
    assert shown["pass@k"] == "k=2 95.0%, k=4 100.0% (19 tasks)"
    assert shown["pass^k"] == "k=2 95.0%, k=4 100.0% (19 tasks)"
