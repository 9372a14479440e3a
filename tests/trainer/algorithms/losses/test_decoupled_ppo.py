"""Decoupled PPO: golden vectors, and special cases with a known result."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from turnwise.errors import TurnwiseError
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.base import Need, TokenBatch
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO

GOLDEN = ([0.5, 0.2, 0.9], [0.4, 0.4, 0.6], [0.2, 0.4, 0.1], [1.0, -1.0, 1.0])


@pytest.mark.parametrize(("mode", "expected"), [("mask", -0.533333), ("truncate", -2.533333)])
def test_golden_vector_of_the_decoupled_loss(mode: str, expected: float) -> None:
    output = DecoupledPPO(clip_ratio_low=0.2, clip_ratio_high=0.2, is_cap=5, is_mode=mode)(token_batch(*GOLDEN))
    assert output.loss.item() == pytest.approx(expected, abs=1e-5)


def test_the_denominator_counts_tokens_above_the_cap() -> None:
    output = DecoupledPPO(is_cap=5, is_mode="mask")(token_batch(*GOLDEN))
    assert output.metrics["is_cap_fraction"].values.tolist() == [False, False, True]
    alone = DecoupledPPO(is_cap=5, is_mode="mask")(token_batch(*(values[:2] for values in GOLDEN)))
    assert output.loss.item() == pytest.approx(alone.loss.item() * 2 / 3, abs=1e-6)


PROBABILITY = st.floats(0.05, 0.95)
TOKENS = st.lists(st.tuples(PROBABILITY, PROBABILITY, PROBABILITY, st.floats(-2, 2)), min_size=1, max_size=8)


@given(TOKENS)
def test_with_the_behavior_policy_as_proximal_the_loss_is_ppos(tokens: list[tuple[float, float, float, float]]) -> None:
    current, _, behavior, advantages = map(list, zip(*tokens, strict=True))
    output = DecoupledPPO()(token_batch(current, behavior, behavior, advantages))
    ratio = [c / b for c, b in zip(current, behavior, strict=True)]
    ppo = [max(-a * r, -a * min(max(r, 0.8), 1.2)) for a, r in zip(advantages, ratio, strict=True)]
    assert output.loss.item() == pytest.approx(sum(ppo) / len(ppo), abs=1e-4)


@given(TOKENS)
def test_at_the_proximal_policy_the_gradient_is_the_weighted_policy_gradient(
    tokens: list[tuple[float, float, float, float]],
) -> None:
    current, _, behavior, advantages = map(list, zip(*tokens, strict=True))
    batch = token_batch(current, current, behavior, advantages)
    DecoupledPPO(is_cap=1e9)(batch).loss.backward()
    assert batch.logprobs.grad is not None
    expected = [-a * c / b / len(tokens) for a, c, b in zip(advantages, current, behavior, strict=True)]
    assert batch.logprobs.grad.tolist() == pytest.approx(expected, abs=1e-4)


def test_a_token_of_weight_zero_adds_nothing() -> None:
    loss = DecoupledPPO(entropy_coef=0.1)
    both = loss(token_batch([0.5, 0.9], [0.4, 0.1], [0.4, 0.1], [1.0, 3.0], weights=[1.0, 0.0]))
    alone = loss(token_batch([0.5], [0.4], [0.4], [1.0]))
    assert both.loss.item() == pytest.approx(alone.loss.item())
    assert both.metrics["behavior_kl"].values.tolist() == pytest.approx([0.5 / 0.4 - 1 - math.log(0.5 / 0.4)])


def test_the_entropy_has_a_gradient_only_if_there_is_a_bonus() -> None:
    assert DecoupledPPO().needs == {Need.ENTROPY}
    assert DecoupledPPO(entropy_coef=0.1).needs == {Need.ENTROPY_GRADIENT}


def test_a_tensor_that_the_loss_does_not_need_cannot_be_read() -> None:
    batch = token_batch([0.5], [0.4], [0.4], [1.0])
    with pytest.raises(TurnwiseError, match=r"add `Need\.REFERENCE` to its `needs`"):
        _ = batch.reference


def test_a_clip_range_per_token_is_that_of_its_token() -> None:
    class PerToken(DecoupledPPO):
        def clip_range(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
            return torch.tensor([0.1, 0.2]), torch.tensor([0.3, 0.1])

    output = PerToken()(token_batch([0.5, 0.28], [0.4, 0.4], [0.4, 0.4], [1.0, -1.0]))
    assert output.loss.item() == pytest.approx((-1.25 + 0.8) / 2, abs=1e-6)
    assert output.metrics["clip_fraction"].values.tolist() == [False, True]
