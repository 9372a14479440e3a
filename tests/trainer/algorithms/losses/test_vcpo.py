"""VCPO: the golden vector of the effective sample size, and the loss by hand."""

import pytest
from turnwise.tests.trainer.algorithms.losses.token_batches import token_batch
from turnwise.trainer.algorithms.losses.vcpo import VCPO
from turnwise.trainer.learner.optimizer import MetricReducer


def scale(loss: VCPO, weights: list[float], episodes: list[int] | None = None) -> float:
    """Return the learning rate's factor for sequences of two tokens whose weights are given."""
    current = [value for weight in weights for value in (0.08, 0.01 * weight)]
    behavior = [value for _ in weights for value in (0.08, 0.01)]
    sequence = [index for index in range(len(weights)) for _ in range(2)]
    reducer = MetricReducer()
    batch = token_batch(current, current, behavior, [1.0] * len(current), sequence=sequence, episodes=episodes)
    reducer.add(loss(batch).metrics)
    return loss.lr_scale(reducer.reduced())


def test_golden_vector_of_the_effective_sample_size() -> None:
    ess = 0.26898
    assert scale(VCPO(), [8.0, 0.1, 0.1, 0.1]) == pytest.approx(0.51863, abs=1e-5)
    assert scale(VCPO(base_ess=0.55), [8.0, 0.1, 0.1, 0.1]) == pytest.approx((ess / 0.55) ** 0.5, abs=1e-5)


def test_equal_weights_keep_the_learning_rate() -> None:
    assert scale(VCPO(), [1.0, 1.0, 1.0, 1.0]) == pytest.approx(1.0)
    assert scale(VCPO(base_ess=0.2), [8.0, 0.1, 0.1, 0.1]) == 1.0


def test_an_episode_of_several_sequences_counts_as_one() -> None:
    golden = scale(VCPO(), [8.0, 0.1, 0.1, 0.1])
    assert scale(VCPO(), [8.0, 8.0, 8.0, 0.1, 0.1, 0.1], [0, 0, 0, 1, 2, 3]) == pytest.approx(golden)
    assert scale(VCPO(), [0.1, 8.0, 0.1, 0.1, 0.1, 0.1], [1, 0, 1, 1, 2, 3]) == pytest.approx(golden)
    assert scale(VCPO(), [8.0, 0.1, 0.1, 0.1, 0.1, 0.1], [0, 1, 2, 3, 4, 5]) < golden


def test_the_weights_before_truncation_count() -> None:
    assert scale(VCPO(is_cap=1.0), [8.0, 0.1, 0.1, 0.1]) == pytest.approx(0.51863, abs=1e-5)


def test_the_gradient_by_hand() -> None:
    # Weights: (0.4 / 0.2) * (0.6 / 0.2) = 6, above the cap of 4, and 0.3 / 0.6 = 0.5.
    batch = token_batch([0.4, 0.6, 0.3], [0.1] * 3, [0.2, 0.2, 0.6], [1.0, 2.0, -1.0], sequence=[0, 0, 1])
    output = VCPO(is_cap=4.0)(batch)
    output.loss.backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([-4 * 1 / 3, -4 * 2 / 3, 0.5 * 1 / 3])
    assert output.metrics["is_cap_fraction"].values.tolist() == [True, False]
    assert output.metrics["sequence_weight_max"].values.tolist() == pytest.approx([6.0, 0.5])


def test_an_enormous_weight_leaves_the_scale_finite() -> None:
    batch = token_batch([0.9] * 400, [0.9] * 400, [1e-4] * 400, [1.0] * 400)
    reducer = MetricReducer()
    reducer.add(VCPO()(batch).metrics)
    assert VCPO().lr_scale(reducer.reduced()) == pytest.approx(1.0)
