"""The penalty on the KL divergence from a reference policy, worked out by hand for two tokens and over all
words of a small vocabulary."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.base import Need, TokenBatch, k3
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO, KLEstimator
from turnwise.trainer.algorithms.losses.gspo import GSPO

CURRENT, REFERENCE = [0.5, 0.2], [0.25, 0.4]
# k3 of a token: q/p - 1 - log q/p, with p current and q reference.
K3 = [0.5 - 1 - math.log(0.5), 2 - 1 - math.log(2)]


def batch() -> TokenBatch:
    """Return tokens at the proximal policy with the advantage 0, so that only the penalty is left."""
    needed = {
        Need.ENTROPY: torch.zeros(2, dtype=torch.float64),
        Need.REFERENCE: torch.tensor(REFERENCE, dtype=torch.float64).log(),
    }
    return token_batch(CURRENT, CURRENT, CURRENT, [0.0, 0.0], needed=needed)


@pytest.mark.parametrize("kind", [DecoupledPPO, GSPO])
@pytest.mark.parametrize(
    ("estimator", "value", "slope"),
    [
        ("k1", [math.log(2), -math.log(2)], [math.log(2), -math.log(2)]),
        ("k2", [math.log(2) ** 2 / 2] * 2, [math.log(2), -math.log(2)]),
        ("k3", K3, [1 - 0.5, 1 - 2.0]),
    ],
)
def test_the_penalty_by_hand(
    kind: type[DecoupledPPO], estimator: KLEstimator, value: list[float], slope: list[float]
) -> None:
    """The logarithms of current/reference are log 2 and -log 2; the metric is k3 for every estimator."""
    tokens = batch()
    output = kind(reference_kl_coef=0.1, kl_estimator=estimator)(tokens)
    assert output.loss.item() == pytest.approx(0.1 * sum(value) / 2)
    assert output.metrics["reference_kl"].values.tolist() == pytest.approx(K3)
    output.loss.backward()
    assert tokens.logprobs.grad is not None
    assert tokens.logprobs.grad.tolist() == pytest.approx([0.1 * one / 2 for one in slope])


WORDS = 12
LOGITS, OTHER, STALE = (torch.tensor([math.sin(k * (i + 1)) * 1.5 for i in range(WORDS)]).double() for k in (1, 2, 3))


def over_all_words(loss: DecoupledPPO, behavior: Tensor) -> tuple[float, Tensor, float]:
    """Return the expected loss over words that ``behavior`` samples, its gradient, and the expected metric.

    The advantages are 0, so the loss is the penalty. Each word is a token that weighs as much as its probability.
    """
    logits = LOGITS.clone().requires_grad_()
    logprobs = logits.log_softmax(0)
    weights = behavior.exp() * WORDS
    words = token_batch([1.0] * WORDS, [1.0] * WORDS, [1.0] * WORDS, [0.0] * WORDS, weights=weights.tolist())
    needed = {**words.needed, Need.REFERENCE: OTHER.log_softmax(0)}
    words = replace(words, logprobs=logprobs, proximal=logprobs.detach(), behavior=behavior, needed=needed)
    output = loss(words)
    output.loss.backward()
    assert logits.grad is not None
    metric = (weights * output.metrics["reference_kl"].values).mean().item()
    return output.loss.item(), logits.grad, metric


def divergence(of: Tensor, to: Tensor) -> Tensor:
    return (of.exp() * (of - to)).sum()


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("behavior", [LOGITS, STALE])
def test_the_gradient_is_that_of_the_divergence(estimator: KLEstimator, behavior: Tensor) -> None:
    """For tokens of the updated policy and for stale ones, whose importance weights are below the cap."""
    logits = LOGITS.clone().requires_grad_()
    current, reference = logits.log_softmax(0), OTHER.log_softmax(0)
    forward, backward = divergence(current, reference), divergence(reference, current)
    (expected,) = torch.autograd.grad(backward if estimator == "k3" else forward, logits)
    loss = DecoupledPPO(reference_kl_coef=0.5, kl_estimator=estimator, is_cap=1e6)
    value, gradient, metric = over_all_words(loss, behavior.log_softmax(0))
    assert gradient.tolist() == pytest.approx((0.5 * expected).tolist(), abs=1e-12)
    assert metric == pytest.approx(forward.item())
    if estimator != "k2":
        assert value == pytest.approx(0.5 * forward.item())


def test_the_default_has_the_gradient_of_the_penalized_divergence() -> None:
    assert DecoupledPPO().kl_estimator == "k2"


@pytest.mark.parametrize(("estimator", "value"), [("k1", math.log(2)), ("k2", math.log(2) ** 2 / 2), ("k3", K3[0])])
def test_a_stale_token_is_weighted_up_to_the_cap(estimator: KLEstimator, value: float) -> None:
    """The first token's weight is .5/.1 = 5, capped at 2; the second's is .2/.4."""
    second = {"k1": -math.log(2), "k2": math.log(2) ** 2 / 2, "k3": K3[1]}[estimator]
    tokens = replace(batch(), behavior=torch.tensor([0.1, 0.4], dtype=torch.float64).log())
    output = DecoupledPPO(reference_kl_coef=0.1, kl_estimator=estimator)(tokens)
    assert output.loss.item() == pytest.approx(0.1 * (2 * value + 0.5 * second) / 2)
    assert output.metrics["reference_kl"].values.tolist() == pytest.approx([2 * K3[0], 0.5 * K3[1]])


def test_the_reference_is_needed_only_with_a_coefficient() -> None:
    assert Need.REFERENCE not in DecoupledPPO().needs
    assert Need.REFERENCE in DecoupledPPO(reference_kl_coef=0.1).needs


def test_k3_is_the_divergence_in_expectation() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    expected = float((p * (p / q).log()).sum())
    assert float((p * k3((q / p).log())).sum()) == pytest.approx(expected, abs=1e-6)
