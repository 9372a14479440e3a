"""Each component has an independent random stream, and a resumed run continues every stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.algorithms.random_streams import Streams

NAMES = st.tuples(st.sampled_from(["task_sampler", "replay_buffer", "sample_filters"]), st.integers(0, 2))


@given(st.lists(NAMES, max_size=40), st.lists(NAMES, max_size=40))
def test_a_stream_does_not_depend_on_draws_from_the_others(
    before: list[tuple[str, int]], also: list[tuple[str, int]]
) -> None:
    own = ("prompt_prefix", 0)
    alone, among = Streams(7), Streams(7)
    drawn = []
    for other in [*before, own, *also, own]:
        value = among.of(*other).random()
        if other == own:
            drawn.append(value)
    assert drawn == [alone.of(*own).random() for _ in range(2)]


@pytest.mark.parametrize("other", [(7, "sample_filters", 1), (7, "replay_buffer", 0), (8, "sample_filters", 0)])
def test_streams_of_another_seed_slot_or_index_differ(other: tuple[int, str, int]) -> None:
    seed, slot, index = other
    assert Streams(7).of("sample_filters", 0).random() != Streams(seed).of(slot, index).random()


@given(st.lists(NAMES, max_size=40), st.lists(NAMES, min_size=1, max_size=40))
def test_streams_continue_from_their_stored_state(before: list[tuple[str, int]], after: list[tuple[str, int]]) -> None:
    whole, first, resumed = Streams(3), Streams(3), Streams(3)
    uninterrupted = [whole.of(*one).gauss(0, 1) for one in before + after]
    for one in before:
        first.of(*one).gauss(0, 1)
    held = resumed.of("task_sampler")
    resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert [resumed.of(*one).gauss(0, 1) for one in after] == uninterrupted[len(before) :]
    assert resumed.of("task_sampler") is held
