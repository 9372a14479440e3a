"""Behavior cloning: the loss and its gradient for two sequences, worked out by hand."""

import math

import pytest
from turnwise.records import Source
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.behavior_cloning import BehaviorCloning

# The advantages, the proximal and the behavior policy must not matter.
BATCH = ([0.5, 0.25, 0.1], [0.9] * 3, [0.9] * 3, [-7.0] * 3)


def test_the_loss_is_the_negative_log_likelihood() -> None:
    output = BehaviorCloning()(token_batch(*BATCH, weights=[1.0, 1.0, 0.0]))
    assert output.loss.item() == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert output.metrics["nll"].values.tolist() == pytest.approx([math.log(2), math.log(4)])


def test_the_gradient_of_a_mean_over_sequences_by_hand() -> None:
    batch = token_batch(*BATCH, sequence=[0, 0, 1])
    BehaviorCloning(aggregation="episode_mean")(batch).loss.backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([-1 / 4, -1 / 4, -1 / 2])


def test_the_loss_accepts_experts_and_patches_and_not_the_policy() -> None:
    assert set(BehaviorCloning.accepts) == {Source.EXPERT, Source.PATCH}
