"""The detail of a batch item: exact where an update depends on it, small, and checked when it is read."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from turnwise.store.content.arrays import pack, unpack
from turnwise.trainer.learner.provenance.recipe import SampleDetail, decode_details, encode_details, half

TURNS, TOKENS = 8, 8
"""Turns of an episode, and sampled tokens of a turn. With its observation, such a turn has some 24 tokens."""
MAX_BYTES_PER_STEP = 48
"""Of them, 2 per token are its entropy."""


def detail(tokens: int, stream: Random, advantage: float = 0.5, path: int = 0) -> SampleDetail:
    """Return a sample whose log-probabilities changed by a few percent, as after an update or two."""
    changes = np.asarray([stream.gauss(0, 0.05) for _ in range(tokens)], np.float32)
    return SampleDetail(
        7,
        1,
        path,
        np.full(tokens, advantage, np.float32),
        np.ones(tokens, np.float32),
        np.zeros(tokens, np.uint8),
        half(changes),
        np.zeros(tokens, np.float16),
        half(np.asarray([stream.random() for _ in range(tokens)], np.float32)),
    )


def test_details_come_back_as_they_were() -> None:
    stream = Random(0)
    other = SampleDetail(
        9,
        0,
        2,
        np.asarray([0.1, -0.2, 1 / 3], np.float32),
        np.asarray([1.0, 0.0, 0.25], np.float32),
        np.asarray([0, 1, 0], np.uint8),
        np.asarray([0.5, 0.0, -2.0], np.float16),
        np.asarray([0.0, 0.0, 0.125], np.float16),
        np.asarray([0.75, np.nan, 2.5], np.float16),
    )
    for given in ([detail(5, stream)], [detail(3, stream), other], [other, detail(0, stream)]):
        found = decode_details(encode_details(given))
        assert [(one.position, one.group, one.path) for one in found] == [
            (one.position, one.group, one.path) for one in given
        ]
        for one, expected in zip(found, given, strict=True):
            for name in ("advantages", "weights", "sources", "logprob_changes", "proximal_changes", "entropies"):
                assert getattr(one, name).tobytes() == getattr(expected, name).tobytes()


def test_a_step_costs_few_bytes() -> None:
    per_trajectory = len(encode_details([detail(TURNS * TOKENS, Random(1))]))
    assert per_trajectory / TURNS < MAX_BYTES_PER_STEP


def test_an_entropy_costs_at_most_two_bytes_and_nothing_where_the_loss_computes_none() -> None:
    stream, tokens = Random(2), 2_000
    with_entropy = detail(tokens, stream)
    without = replace(with_entropy, entropies=np.full(tokens, np.nan, np.float16))
    assert len(encode_details([with_entropy])) - len(encode_details([without])) <= 2 * tokens + 32
    assert "entropy" not in unpack(encode_details([without]))
    assert np.isnan(decode_details(encode_details([without]))[0].entropies).all()


def test_values_beyond_float16_are_its_largest() -> None:
    assert half(np.asarray([1e6, -np.inf, 0.5], np.float32)).tolist() == [65504, -65504, 0.5]


@pytest.mark.parametrize(
    ("name", "values"),
    [("logprob", np.zeros(4, np.float16)), ("position", np.zeros(2, np.int32)), ("tokens", np.zeros(1, np.int32))],
)
def test_arrays_of_other_lengths_are_an_error(name: str, values: np.ndarray) -> None:
    arrays = unpack(encode_details([detail(5, Random(0))]))
    with pytest.raises(ValueError, match="other lengths"):
        decode_details(pack({**arrays, name: values}))


def test_a_missing_array_is_an_error() -> None:
    arrays = unpack(encode_details([detail(5, Random(0))]))
    with pytest.raises(ValueError, match="no array 'advantage'"):
        decode_details(pack({name: values for name, values in arrays.items() if name != "advantage"}))
