"""An episode whose context began again has several sequences, and weighs as much as one with a single sequence."""

from dataclasses import replace

import pytest
from turnwise.tests.trainer.algorithms.losses.test_weights import LOSSES, REWARDED, sample
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.base import PolicyLoss, Totals
from turnwise.trainer.algorithms.losses.hpt import HPT
from turnwise.trainer.learner.packing import pack_minibatch

PROBABILITIES = [0.5, 0.4, 0.3, 0.2]
ADVANTAGES = [1.0, 1.0, 1.0, -1.0]


def gradient(loss: PolicyLoss, sequence: list[int], episodes: list[int]) -> list[float]:
    batch = token_batch(PROBABILITIES, PROBABILITIES, PROBABILITIES, ADVANTAGES, sequence=sequence, episodes=episodes)
    loss(batch).loss.backward()
    assert batch.logprobs.grad is not None
    return batch.logprobs.grad.tolist()


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not isinstance(loss, HPT)], ids=repr)
def test_its_gradient_is_that_of_one_sequence(loss: PolicyLoss) -> None:
    whole = gradient(loss, [0, 0, 0, 1], [0, 1])
    assert all(whole)
    assert gradient(loss, [0, 1, 2, 3], [0, 0, 0, 1]) == pytest.approx(whole)
    assert gradient(loss, [0, 1, 1, 2], [0, 0, 1]) == pytest.approx(whole)


def test_the_lengths_and_totals_of_an_optimizer_step_are_those_of_episodes() -> None:
    first, second = sample("a", REWARDED, 1.0, 0.5), sample("b", REWARDED, 1.0, 0.5)
    minibatch = pack_minibatch([first, second, replace(first, path=1), replace(first, path=2)], 3)
    assert minibatch.lengths.tolist() == [2] * 4
    assert minibatch.episode_lengths.tolist() == [6, 2, 6, 6]
    assert minibatch.totals == Totals(8, 2, 2)
    other_group = pack_minibatch([first, replace(first, group="b")], 3)
    assert (other_group.episode_lengths.tolist(), other_group.totals) == ([2, 2], Totals(4, 2, 2))
