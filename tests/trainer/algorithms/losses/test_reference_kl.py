"""The penalty on the KL divergence from a reference policy, worked out by hand for two tokens."""

import math

import pytest
import torch
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.base import Need, TokenBatch, k3
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
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


@pytest.mark.parametrize("loss", [DecoupledPPO(reference_kl_coef=0.1), GSPO(reference_kl_coef=0.1)])
def test_the_penalty_by_hand(loss: DecoupledPPO) -> None:
    tokens = batch()
    output = loss(tokens)
    assert output.loss.item() == pytest.approx(0.1 * sum(K3) / 2)
    assert output.metrics["reference_kl"].values.tolist() == pytest.approx(K3)
    output.loss.backward()
    assert tokens.logprobs.grad is not None
    # d k3 / d log p = 1 - q/p
    assert tokens.logprobs.grad.tolist() == pytest.approx([0.1 * (1 - 0.5) / 2, 0.1 * (1 - 2.0) / 2])


def test_the_reference_is_needed_only_with_a_coefficient() -> None:
    assert Need.REFERENCE not in DecoupledPPO().needs
    assert Need.REFERENCE in DecoupledPPO(reference_kl_coef=0.1).needs


def test_k3_is_the_divergence_in_expectation() -> None:
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    expected = float((p * (p / q).log()).sum())
    assert float((p * k3((q / p).log())).sum()) == pytest.approx(expected, abs=1e-6)
