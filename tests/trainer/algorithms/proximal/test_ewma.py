"""PPO-EWMA: the golden vector of the moving average, and the policies at both ends of ``beta``."""

import pytest
import torch
from torch import Tensor
from turnwise.tests.trainer.algorithms.proximal.tokens import proximal_tokens
from turnwise.trainer.algorithms.proximal.base import Weights
from turnwise.trainer.algorithms.proximal.ewma import EWMA

TOKENS = proximal_tokens([-2.0], [-1.5])


def average_after(policy: EWMA, values: list[float]) -> float:
    """Return the average of a model with one weight that takes ``values``, the first before the first update."""
    weight = torch.tensor([values[0]], dtype=torch.float64)
    policy.start_update({"w": weight})
    for value in values[1:]:
        weight.fill_(value)
        policy.after_step({"w": weight})
        policy.start_update({"w": weight})

    def score(weights: Weights) -> Tensor:
        return weights["w"]

    return policy.logprobs(TOKENS, score).item()


def test_golden_vector_of_the_average() -> None:
    assert average_after(EWMA(beta=0.889), [0.0, 1.0, 2.0, 3.0]) == pytest.approx(1.64650, abs=1e-5)


def test_at_beta_0_the_average_is_the_last_policy() -> None:
    assert average_after(EWMA(beta=0.0), [0.0, 1.0, 2.0, 3.0]) == 3.0


def test_before_the_first_step_the_average_is_the_policy_itself() -> None:
    assert average_after(EWMA(), [5.0]) == 5.0


def test_the_average_is_a_copy_that_later_steps_do_not_change() -> None:
    policy, weight = EWMA(), torch.tensor([1.0])
    policy.start_update({"w": weight})
    weight.fill_(9.0)
    assert policy.tensors()["w"].item() == 1.0


def test_the_state_is_restored() -> None:
    policy, again = EWMA(beta=0.5), EWMA(beta=0.5)
    average_after(policy, [0.0, 1.0])
    again.load_state_dict(policy.state_dict())
    again.load_tensors({name: value.clone() for name, value in policy.tensors().items()})
    values = [average_after(one, [7.0, 2.0]) for one in (policy, again)]
    assert values[0] == values[1] == pytest.approx((0 * 0.25 + 1 * 0.5 + 2) / 1.75)
