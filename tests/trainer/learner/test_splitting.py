"""Minibatches are shuffled and balanced, micro-batches balanced and equally many per rank."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.learner.packing import split_micro_batches, split_minibatches

SIZES = st.lists(st.integers(1, 50), max_size=40)


@given(SIZES, st.integers(1, 8), st.integers(0, 9))
def test_every_sample_is_in_one_minibatch_and_none_is_empty(sizes: list[int], count: int, seed: int) -> None:
    parts = split_minibatches(sizes, range(len(sizes)), count, Random(seed))
    assert sorted(index for part in parts for index in part) == list(range(len(sizes)))
    assert len(parts) == min(count, len(sizes))
    assert all(parts)


@given(st.lists(st.integers(1, 8), min_size=27, max_size=40), st.integers(2, 3), st.integers(0, 9))
def test_tokens_are_balanced_up_to_one_sample(sizes: list[int], count: int, seed: int) -> None:
    tokens = [
        sum(sizes[index] for index in part) for part in split_minibatches(sizes, range(len(sizes)), count, Random(seed))
    ]
    assert all(abs(total - sum(sizes) / count) <= max(sizes) for total in tokens)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5)), max_size=40), st.integers(1, 8), st.integers(0, 9))
def test_no_episode_is_split(samples: list[tuple[int, int]], count: int, seed: int) -> None:
    sizes, episodes = [size for size, _ in samples], [episode for _, episode in samples]
    parts = split_minibatches(sizes, episodes, count, Random(seed))
    assert sorted(index for part in parts for index in part) == list(range(len(sizes)))
    held = [{episodes[index] for index in part} for part in parts]
    assert sum(map(len, held)) == len(set(episodes))
    assert len(parts) == min(count, len(set(episodes)))


def test_one_minibatch_keeps_the_order_and_draws_nothing() -> None:
    stream = Random(0)
    before = stream.getstate()
    assert split_minibatches([3, 1, 2], range(3), 1, stream) == [[0, 1, 2]]
    assert stream.getstate() == before


def test_the_order_comes_from_the_stream_and_differs_between_epochs() -> None:
    stream = Random(0)
    first, second = (split_minibatches([1] * 12, range(12), 3, stream) for _ in range(2))
    assert first != second
    assert split_minibatches([1] * 12, range(12), 3, Random(0)) == first


MICRO_SIZES = st.lists(st.integers(1, 30), max_size=20)


@given(MICRO_SIZES, st.integers(1, 40), st.integers(1, 4))
def test_every_sample_is_in_one_micro_batch_within_the_limit(sizes: list[int], limit: int, ranks: int) -> None:
    parts = split_micro_batches(sizes, limit, ranks)
    assert sorted(index for part in parts for index in part) == list(range(len(sizes)))
    assert all(part == sorted(part) for part in parts)
    assert all(len(part) <= 1 or sum(sizes[index] for index in part) <= limit for part in parts)
    assert len(parts) % ranks == 0
    filled = [bool(part) for part in parts]
    assert filled == sorted(filled, reverse=True)


@given(st.lists(st.integers(1, 8), min_size=20, max_size=40), st.integers(1, 4))
def test_micro_batches_are_balanced_up_to_one_sample(sizes: list[int], ranks: int) -> None:
    tokens = [sum(sizes[index] for index in part) for part in split_micro_batches(sizes, 40, ranks)]
    assert max(tokens) - min(tokens) <= max(sizes)


def test_no_more_micro_batches_than_needed() -> None:
    assert split_micro_batches([60, 50, 40, 50], 100) == [[0, 2], [1, 3]]
    assert split_micro_batches([60, 50, 40, 50], 100, 2) == [[0, 2], [1, 3]]
    assert split_micro_batches([60, 50, 40, 50], 100, 4) == [[0], [1], [2], [3]]
    assert split_micro_batches([7], 100, 2) == [[0], []]
    assert split_micro_batches([200, 1], 100) == [[0], [1]]
