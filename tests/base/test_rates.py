"""Rates, pass@k and intervals equal published values and values worked out by hand."""

import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.base.rates import Counts, Rate, clustered, newcombe, pass_all, pass_at, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_of_a_proportion_equals_the_published_one(
    successes: int, trials: int, low: float, high: float
) -> None:
    # Newcombe 1998, Statistics in Medicine 17, 857-872, table I, method 3.
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("after", "before", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((5, 56), (0, 29), -0.0381, 0.1926),
    ],
)
def test_the_interval_of_a_difference_equals_the_published_one(
    after: tuple[int, int], before: tuple[int, int], low: float, high: float
) -> None:
    # Newcombe 1998, Statistics in Medicine 17, 873-890, table II, method 10.
    shares = [(one[0] / one[1], *wilson(*one)) for one in (before, after)]
    assert newcombe(*shares) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 500), st.data())
def test_a_difference_is_inside_its_interval_and_changes_sign_with_its_operands(
    trials: int, data: st.DataObject
) -> None:
    a, b = (
        (n / trials, *wilson(n, trials)) for n in data.draw(st.tuples(st.integers(0, trials), st.integers(0, trials)))
    )
    low, high = newcombe(a, b)
    assert -1 - 1e-9 <= low <= b[0] - a[0] <= high <= 1 + 1e-9
    assert newcombe(b, a) == pytest.approx((-high, -low))


def test_without_trials_there_is_no_interval() -> None:
    assert all(math.isnan(one) for one in wilson(0, 0))


def test_a_rate_over_tasks_with_several_samples() -> None:
    """Two tasks of four samples, 1 and 3 of them successes: pass@2 is (3/6 + 6/6) / 2, pass^2 is (0/6 + 3/6) / 2."""
    rate = Rate.of([(1, 4), (0, 0), (3, 4)])
    assert (rate.tasks, rate.episodes, rate.success) == (2, 8, 0.5)
    assert rate.pass_at == {"2": 0.75, "4": 1.0}
    assert rate.pass_all == {"2": 0.25, "4": 0.0}
    assert Rate.of_json(asdict(rate)) == rate


def test_one_sample_per_task_has_wilson_s_interval_and_no_pass_at_k() -> None:
    rate = Rate.of([(1, 1)] * 15 + [(0, 1)] * 133)
    assert (rate.low, rate.high) == pytest.approx((0.0624, 0.1605), abs=5e-5)
    assert (rate.pass_at, rate.pass_all) == ({}, {})


def test_pass_at_k_equals_values_worked_out_by_hand() -> None:
    # One success of five: 1 - C(4, 3) / C(5, 3) = 1 - 4 / 10. Four of five: pass^3 is C(4, 3) / 10.
    assert pass_at(3, [(1, 5)]) == pytest.approx(0.6)
    assert pass_at(3, [(4, 5), (1, 5), (2, 2)]) == pytest.approx(0.8), "a task with two samples has no pass@3"
    assert pass_all(3, [(4, 5), (1, 5)]) == pytest.approx(0.2)
    assert math.isnan(pass_at(3, [(2, 2)]))


def test_pass_at_k_is_over_at_least_nineteen_of_twenty_tasks() -> None:
    """A single task whose samples all have an outcome decides no pass@k; each k names its number of tasks."""
    rate = Rate.of([(7, 7)] * 99 + [(0, 8)])
    assert rate.pass_at == pytest.approx({"2": 0.99, "4": 0.99, "7": 0.99})
    assert (list(rate.pass_all), rate.pass_tasks) == (["2", "4", "7"], {"2": 100, "4": 100, "7": 100})
    assert Rate.of([(4, 4)] * 95 + [(0, 3)] * 5).pass_tasks == {"2": 100, "4": 95}
    assert Rate.of([(4, 4)] * 94 + [(0, 3)] * 6).pass_tasks == {"2": 100, "3": 100}


def test_the_interval_of_samples_of_one_task_is_that_of_the_effective_number_of_episodes() -> None:
    """The design effect is between 1 and the samples per task: the mean of the measured one and of 8 tasks' maximum."""
    assert clustered([(4, 4), (0, 4)] * 10) == pytest.approx(wilson(10, 20)), "measured: 4, as the maximum"
    # 20 equal tasks, all informative: 19 of the 27 weights have the effect 1, the other 8 have 4.
    assert clustered([(2, 4)] * 20) == pytest.approx(wilson(80 / 102 * 27, 160 / 102 * 27))
    # Shares 1, 1/2, 0, 1/2 of 8 each: variance 1/32 and 4/3 of it, effect 32 / 24 x 4 = 16/3; 3 informative tasks.
    effect = (8 * 8 + 2 * 16 / 3) / 10
    assert clustered([(8, 8), (4, 8), (0, 8), (4, 8)]) == pytest.approx(wilson(16 / effect, 32 / effect))
    assert clustered([(0, 2), (0, 2), (1, 2)]) == pytest.approx(wilson(0.5, 3)), "one informative task has no weight"
    assert clustered([(32, 64)]) == pytest.approx(wilson(0.5, 1)), "one task is one episode, whatever its samples"
    assert clustered([(4, 4)] * 5) == wilson(5, 5), "as for one sample per task"
    assert all(math.isnan(end) for end in clustered([(0, 0)]))


def test_the_interval_changes_little_with_one_success() -> None:
    (_, none), (_, one) = clustered([(0, 8)] * 50), clustered([(0, 8)] * 49 + [(1, 8)])
    assert none < one < none + 0.01


@pytest.mark.parametrize("tasks", [10, 50])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (0.5, 4.5), (5, 5), (0.1, 0.1)])
def test_the_interval_covers_the_success_and_one_without_clusters_does_not(tasks: int, a: float, b: float) -> None:
    draws, stream = 600, np.random.default_rng(7)
    counts = [stream.binomial(8, stream.beta(a, b, tasks)).tolist() for _ in range(draws)]
    intervals = [clustered([(count, 8) for count in of_tasks]) for of_tasks in counts]
    naive = [wilson(sum(of_tasks), 8 * tasks) for of_tasks in counts]
    covered, uncovered = (sum(low <= a / (a + b) <= high for low, high in ends) / draws for ends in (intervals, naive))
    assert covered >= 0.93 > uncovered


TASKS = st.lists(st.integers(0, 8).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1)


@given(TASKS)
def test_a_rate_is_inside_its_interval_and_pass_at_k_grows_with_k(tasks: list[Counts]) -> None:
    rate = Rate.of(tasks)
    if not rate.episodes:
        assert math.isnan(rate.success)
        return
    assert 0 <= rate.low <= rate.success <= rate.high <= 1
    full = [(c, n) for c, n in tasks if n == 8]
    grows = [pass_at(k, full) for k in range(1, 9)] if full else []
    assert grows == pytest.approx(sorted(grows))
    assert [pass_all(k, full) for k in range(1, 9)] == pytest.approx(
        [1 - pass_at(k, [(n - c, n) for c, n in full]) for k in range(1, 9)], nan_ok=True
    )
