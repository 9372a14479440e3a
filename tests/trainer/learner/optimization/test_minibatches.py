"""Minibatches hold every sample once, are balanced by tokens, and draw from the given stream only."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.learner.optimization.minibatches import split_minibatches

SIZES = st.lists(st.integers(1, 50), max_size=40)


@given(SIZES, st.integers(1, 8), st.integers(0, 9))
def test_every_sample_is_in_one_minibatch_and_none_is_empty(sizes: list[int], count: int, seed: int) -> None:
    parts = split_minibatches(sizes, count, Random(seed))
    assert sorted(index for part in parts for index in part) == list(range(len(sizes)))
    assert len(parts) == min(count, len(sizes))
    assert all(parts)


@given(st.lists(st.integers(1, 8), min_size=27, max_size=40), st.integers(2, 3), st.integers(0, 9))
def test_tokens_are_balanced_up_to_one_sample(sizes: list[int], count: int, seed: int) -> None:
    tokens = [sum(sizes[index] for index in part) for part in split_minibatches(sizes, count, Random(seed))]
    assert all(abs(total - sum(sizes) / count) <= max(sizes) for total in tokens)


def test_one_minibatch_keeps_the_order_and_draws_nothing() -> None:
    stream = Random(0)
    before = stream.getstate()
    assert split_minibatches([3, 1, 2], 1, stream) == [[0, 1, 2]]
    assert stream.getstate() == before


def test_the_order_comes_from_the_stream_and_differs_between_epochs() -> None:
    stream = Random(0)
    first, second = (split_minibatches([1] * 12, 3, stream) for _ in range(2))
    assert first != second
    assert split_minibatches([1] * 12, 3, Random(0)) == first
