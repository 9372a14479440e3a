"""GSPO: the loss and its gradient for two sequences, worked out by hand."""

import math

import pytest
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.gspo import GSPO

CURRENT = [0.5, 0.4, 0.9]
PROXIMAL = [0.4, 0.2, 0.3]
SEQUENCE = [0, 0, 1]
# Sequence 0: s = sqrt(0.5/0.4 * 0.4/0.2) = sqrt(2.5), A = 1. Sequence 1: s = 0.9/0.3 = 3, A = -2.
S0, S1 = math.sqrt(2.5), 3.0


def test_the_loss_by_hand() -> None:
    batch = token_batch(CURRENT, PROXIMAL, PROXIMAL, [1.0, 1.0, -2.0], sequence=SEQUENCE)
    output = GSPO(clip_ratio_low=0.2, clip_ratio_high=0.2)(batch)
    # min(s A, clip(s) A): sequence 0 is clipped at 1.2, sequence 1 is not, since its advantage is negative.
    assert output.loss.item() == pytest.approx(-(1.2 * 1 + S1 * -2) / 2)
    assert output.metrics["clip_fraction"].values.tolist() == [True, True, True]


def test_the_gradient_by_hand() -> None:
    batch = token_batch(CURRENT, PROXIMAL, PROXIMAL, [1.0, 1.0, -2.0], sequence=SEQUENCE)
    GSPO(clip_ratio_low=0.9, clip_ratio_high=9.0)(batch).loss.backward()
    assert batch.logprobs.grad is not None
    # d(s_i A_i)/d(log-probability) = A_i s_i / |y_i|, over two sequences.
    expected = [-S0 / 2 / 2, -S0 / 2 / 2, 2 * S1 / 2]
    assert batch.logprobs.grad.tolist() == pytest.approx(expected)


def test_each_turn_is_moved_by_its_own_advantage() -> None:
    """One sequence, turns of 2 and 3 tokens with the advantages 1 and -1: the gradient of a token is -A s / 5."""
    current, proximal, advantages = [0.5, 0.4, 0.9, 0.3, 0.2], [0.4, 0.4, 0.9, 0.3, 0.25], [1.0, 1.0, -1.0, -1.0, -1.0]
    batch = token_batch(current, proximal, proximal, advantages)
    output = GSPO(clip_ratio_low=0.9, clip_ratio_high=9.0)(batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx((-2 + 3) / 5), "the ratios 1.25 and .8 cancel: s is 1"
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([-1 / 5, -1 / 5, 1 / 5, 1 / 5, 1 / 5])


def test_turns_of_equal_length_and_opposite_advantage_do_not_cancel() -> None:
    batch = token_batch([0.5] * 4, [0.5] * 4, [0.5] * 4, [1.0, 1.0, -1.0, -1.0])
    GSPO()(batch).loss.backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([-1 / 4, -1 / 4, 1 / 4, 1 / 4])


def test_tokens_of_one_sequence_are_clipped_together() -> None:
    # The token ratios 4 and 1/4 are far outside the clip range; their geometric mean is 1.
    batch = token_batch([0.8, 0.1], [0.2, 0.4], [0.2, 0.4], [1.0, 1.0])
    output = GSPO()(batch)
    assert output.loss.item() == pytest.approx(-1.0)
    assert output.metrics["clip_fraction"].values.tolist() == [False, False]
