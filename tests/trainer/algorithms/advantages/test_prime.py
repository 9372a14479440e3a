"""PRIME: golden values of its pure functions, by hand."""

import math

import numpy as np
import pytest
import torch
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.advantages._returns import largest_sum, leave_one_out, sums_to_go
from turnwise.trainer.algorithms.advantages.prime import PRIME, outcome_loss


def test_the_baseline_of_a_process_reward_is_the_mean_of_each_other_trajectory() -> None:
    """By hand: means 1.5 and 3, so the baseline is 4.5; each reward counts n / (n - 1) = 2 times."""
    first, second = leave_one_out([np.array([1.0, 2.0]), np.array([3.0])])
    assert first.tolist() == pytest.approx([-2.5, -0.5])
    assert second.tolist() == pytest.approx([1.5])


def test_the_outcome_gets_the_leave_one_out_advantage() -> None:
    """By hand: 1 less the mean of 0 and 0; 0 less the mean of 1 and 0."""
    values = leave_one_out([np.array([1.0]), np.array([0.0]), np.array([0.0])])
    assert np.concatenate(values).tolist() == pytest.approx([1, -0.5, -0.5])
    assert leave_one_out([np.array([1.0, 2.0])])[0].tolist() == [0, 0], "a group of one"


def test_a_token_gets_the_rewards_from_itself_on() -> None:
    assert sums_to_go(np.array([1.0, 2.0, 3.0])).tolist() == [6, 5, 3]


def test_the_largest_sum_is_that_of_the_end_of_a_trajectory() -> None:
    """By hand: the sums are 3 and 2, then -3 and 1."""
    assert largest_sum([np.array([1.0, 2.0]), np.array([-4.0, 1.0])]) == 3
    assert largest_sum([np.zeros(0)]) == 0


def test_the_loss_is_the_cross_entropy_of_the_outcome() -> None:
    """By hand: log 2 at 0; log(1 + e^-2) = .126928 for a success at 2, and 2 more for a failure."""
    zero, two = torch.tensor(0.0), torch.tensor(2.0)
    assert float(outcome_loss([zero], [True])) == pytest.approx(math.log(2))
    assert float(outcome_loss([two], [True])) == pytest.approx(0.126928, abs=1e-6)
    assert float(outcome_loss([two, two], [True, False])) == pytest.approx(0.126928 + 1, abs=1e-6)


def test_without_a_token_model_the_error_names_the_declaration() -> None:
    with pytest.raises(TurnwiseError, match="needs_token_model = True"):
        PRIME()([scored_group([[1.0], [0.0]])])
