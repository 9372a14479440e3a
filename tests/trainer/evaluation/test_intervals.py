"""Compare the confidence intervals of proportions and of their differences with published values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.evaluation.heldout import newcombe, wilson


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
