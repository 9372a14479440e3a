"""Micro-batches hold every sample once, within the limit, and every rank has equally many."""

from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.learner.optimization.micro_batches import split_micro_batches

SIZES = st.lists(st.integers(1, 30), max_size=20)


@given(SIZES, st.integers(1, 40), st.integers(1, 4))
def test_every_sample_is_in_one_micro_batch_within_the_limit(sizes: list[int], limit: int, ranks: int) -> None:
    parts = split_micro_batches(sizes, limit, ranks)
    assert sorted(index for part in parts for index in part) == list(range(len(sizes)))
    assert all(part == sorted(part) for part in parts)
    assert all(len(part) <= 1 or sum(sizes[index] for index in part) <= limit for part in parts)
    assert len(parts) % ranks == 0
    filled = [bool(part) for part in parts]
    assert filled == sorted(filled, reverse=True)


@given(st.lists(st.integers(1, 8), min_size=20, max_size=40), st.integers(1, 4))
def test_tokens_are_balanced_up_to_one_sample(sizes: list[int], ranks: int) -> None:
    tokens = [sum(sizes[index] for index in part) for part in split_micro_batches(sizes, 40, ranks)]
    assert max(tokens) - min(tokens) <= max(sizes)


def test_no_more_micro_batches_than_needed() -> None:
    assert split_micro_batches([60, 50, 40, 50], 100) == [[0, 2], [1, 3]]
    assert split_micro_batches([60, 50, 40, 50], 100, 2) == [[0, 2], [1, 3]]
    assert split_micro_batches([60, 50, 40, 50], 100, 4) == [[0], [1], [2], [3]]
    assert split_micro_batches([7], 100, 2) == [[0], []]
    assert split_micro_batches([200, 1], 100) == [[0], [1]]
