"""The proximal policies without state and without a forward pass of their own."""

from turnwise.tests.trainer.algorithms.proximal.tokens import never_scored, proximal_tokens
from turnwise.trainer.algorithms.proximal.behavior import Behavior
from turnwise.trainer.algorithms.proximal.recompute import Recompute

TOKENS = proximal_tokens([-2.0], [-1.5])


def test_recompute_is_the_policy_at_the_start_of_the_update() -> None:
    assert Recompute.needs_start
    assert Recompute().logprobs(TOKENS, never_scored).tolist() == [-0.5]


def test_behavior_is_the_policy_that_sampled_the_token() -> None:
    assert not Behavior.needs_start
    assert Behavior().logprobs(TOKENS, never_scored).tolist() == [-2.0]
