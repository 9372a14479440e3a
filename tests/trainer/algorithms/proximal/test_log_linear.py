"""The log-linear proximal policy: values worked out by hand, and the clip range that widens with staleness."""

import math

import pytest
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.tests.trainer.algorithms.proximal.tokens import never_scored, proximal_tokens
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.proximal.log_linear import LogLinear


def test_values_by_hand() -> None:
    # Staleness 0, 1, 3 and none: alpha = 0, 1/2, 3/4, 0.
    tokens = proximal_tokens([-1.0, -2.0, -1.0, -4.0], [-1.5, -2.2, -1.4, -1.0], [0, 1, 3, -1])
    assert LogLinear().logprobs(tokens, never_scored).tolist() == pytest.approx([-1.0, -2.1, -1.3, -4.0])


@pytest.mark.parametrize(("staleness", "bound"), [(0, 1.2), (1, 1.44), (3, 1.2**4)])
def test_the_clip_range_of_the_total_ratio_widens_with_staleness(staleness: int, bound: float) -> None:
    for total, clipped in ((bound * 0.99, False), (bound * 1.01, True)):
        behavior, current = 0.1, 0.1 * total
        tokens = proximal_tokens([math.log(behavior)], [math.log(current)], [staleness])
        proximal = LogLinear().logprobs(tokens, never_scored).exp().tolist()
        output = DecoupledPPO()(token_batch([current], proximal, [behavior], [1.0]))
        assert output.metrics["clip_fraction"].values.tolist() == [clipped]
