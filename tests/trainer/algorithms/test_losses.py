"""Decoupled PPO: golden vectors, and special cases with a known result."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.algorithms.losses.base import LossInputs
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.behavior import Behavior
from turnwise.trainer.algorithms.proximal.recompute import Recompute


def inputs(current, proximal, behavior, advantages, weights=None, denominator=None) -> LossInputs:
    size = len(current)
    weight = torch.tensor(weights or [1.0] * size)
    return LossInputs(
        logprobs=torch.tensor(current).log().requires_grad_(),
        entropy=torch.zeros(size),
        proximal=torch.tensor(proximal).log(),
        behavior=torch.tensor(behavior).log(),
        advantages=torch.tensor(advantages),
        weights=weight,
        denominator=denominator or float(weight.sum()),
    )


GOLDEN = ([0.5, 0.2, 0.9], [0.4, 0.4, 0.6], [0.2, 0.4, 0.1], [1.0, -1.0, 1.0])


@pytest.mark.parametrize(("mode", "expected"), [("mask", -0.533333), ("truncate", -2.533333)])
def test_golden_vector_of_the_decoupled_loss(mode: str, expected: float) -> None:
    loss, _ = DecoupledPPO(clip_ratio_low=0.2, clip_ratio_high=0.2, is_cap=5, is_mode=mode)(inputs(*GOLDEN))
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-5)


def test_the_denominator_counts_tokens_above_the_cap() -> None:
    loss, metrics = DecoupledPPO(is_cap=5, is_mode="mask")(inputs(*GOLDEN))
    assert float(metrics["is_cap_fraction"]) == 1
    kept = [values[:2] for values in GOLDEN]
    alone, _ = DecoupledPPO(is_cap=5, is_mode="mask")(inputs(*kept))
    assert float(loss.detach()) == pytest.approx(float(alone.detach()) * 2 / 3, abs=1e-6)


PROBABILITY = st.floats(0.05, 0.95)
TOKENS = st.lists(st.tuples(PROBABILITY, PROBABILITY, PROBABILITY, st.floats(-2, 2)), min_size=1, max_size=8)


@given(TOKENS)
def test_with_the_behavior_policy_as_proximal_the_loss_is_ppos(tokens: list[tuple[float, float, float, float]]) -> None:
    current, _, behavior, advantages = map(list, zip(*tokens, strict=True))
    given_inputs = inputs(current, behavior, behavior, advantages)
    loss, _ = DecoupledPPO()(given_inputs)
    ratio = [c / b for c, b in zip(current, behavior, strict=True)]
    ppo = [max(-a * r, -a * min(max(r, 0.8), 1.2)) for a, r in zip(advantages, ratio, strict=True)]
    assert float(loss.detach()) == pytest.approx(sum(ppo) / len(ppo), abs=1e-4)


@given(TOKENS)
def test_at_the_proximal_policy_the_gradient_is_the_weighted_policy_gradient(
    tokens: list[tuple[float, float, float, float]],
) -> None:
    current, _, behavior, advantages = map(list, zip(*tokens, strict=True))
    given_inputs = inputs(current, current, behavior, advantages)
    loss, _ = DecoupledPPO(is_cap=1e9)(given_inputs)
    loss.backward()
    assert given_inputs.logprobs.grad is not None
    expected = [-a * c / b / len(tokens) for a, c, b in zip(advantages, current, behavior, strict=True)]
    assert given_inputs.logprobs.grad.tolist() == pytest.approx(expected, abs=1e-4)


def test_a_token_of_weight_zero_adds_nothing() -> None:
    one = inputs([0.5, 0.9], [0.4, 0.1], [0.4, 0.1], [1.0, 3.0], weights=[1.0, 0.0])
    loss, metrics = DecoupledPPO(entropy_coef=0.1)(one)
    alone, _ = DecoupledPPO(entropy_coef=0.1)(inputs([0.5], [0.4], [0.4], [1.0]))
    assert float(loss.detach()) == pytest.approx(float(alone.detach()))
    assert float(metrics["behavior_kl"]) == pytest.approx(0.5 / 0.4 - 1 - math.log(0.5 / 0.4), abs=1e-6)


def test_proximal_policies_return_detached_logprobs() -> None:
    current, behavior = torch.tensor([-1.0], requires_grad=True), torch.tensor([-2.0])
    recomputed = Recompute().logprobs(current, behavior)
    assert recomputed.tolist() == [-1.0]
    assert not recomputed.requires_grad
    assert Behavior().logprobs(current, behavior).tolist() == [-2.0]
