"""The exact sign test of a comparison, with values worked out by hand."""

import pytest
from turnwise.trainer.run.comparison import sign_test


@pytest.mark.parametrize(
    ("better", "worse", "p_value"),
    [(0, 0, None), (1, 0, 1.0), (5, 5, 1.0), (9, 1, 2 * 11 / 1024), (0, 10, 2 / 1024), (1000, 1000, 1.0)],
)
def test_the_p_value_is_that_of_a_fair_coin(better: int, worse: int, p_value: float | None) -> None:
    assert sign_test(better, worse) == p_value
