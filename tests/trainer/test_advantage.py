"""Credit by trajectory and by turn."""

import math
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.advantage import group_mean, group_normalised, returns_to_go, turn_return

REWARDS = st.lists(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6), min_size=1, max_size=6)


def test_group_mean_gives_each_turn_the_trajectorys_advantage() -> None:
    assert group_mean([[0, 1], [0], [0, 0, 0.5]]) == [[0.5, 0.5], [-0.5], [0, 0, 0]]


def test_group_normalised_has_unit_deviation() -> None:
    flat = [turns[0] for turns in group_normalised([[1.0], [0.0], [0.0], [1.0]])]
    assert flat == pytest.approx([1, -1, -1, 1], abs=1e-5)


def test_returns_to_go_are_discounted_sums() -> None:
    assert returns_to_go([1, 1, 1], 0.5) == [1.75, 1.5, 1]


def test_turn_return_compares_with_the_members_still_alive() -> None:
    credit = turn_return([[0, 1.0], [0, 0.0], [-0.3]])
    mean = (1 + 0 - 0.3) / 3
    assert credit[0] == pytest.approx([1 - mean, 0.5])
    assert credit[1] == pytest.approx([0 - mean, -0.5])
    assert credit[2] == pytest.approx([-0.3 - mean])


def test_the_last_one_alive_is_credited_with_its_whole_trajectory() -> None:
    late_success = turn_return([[0, 0, 0, 1.0], [0.0], [0.0]])
    late_failure = turn_return([[0, 0, 0, -0.3], [0.0], [0.0]])
    assert late_success[0] == pytest.approx([2 / 3] * 4)
    assert late_failure[0] == pytest.approx([-0.2] * 4)


def test_the_last_one_alive_is_not_credited_twice_for_what_it_had() -> None:
    credit = turn_return([[0.5, 0.5], [0.0]])
    assert credit[0] == pytest.approx([0.5, 0.5])


@given(REWARDS)
def test_turn_return_has_the_shape_of_the_rewards_and_is_finite(rewards: list[list[float]]) -> None:
    credit = turn_return(rewards, 0.9)
    assert [len(turns) for turns in credit] == [len(turns) for turns in rewards]
    assert all(math.isfinite(value) for turns in credit for value in turns)


@given(REWARDS)
def test_advantages_of_turns_where_several_live_sum_to_zero(rewards: list[list[float]]) -> None:
    credit = turn_return(rewards)
    for turn in range(max(map(len, rewards))):
        alive = [turns[turn] for turns in credit if len(turns) > turn]
        if len(alive) > 1:
            assert sum(alive) == pytest.approx(0, abs=1e-5)


@given(REWARDS, st.floats(-1, 1))
def test_a_constant_added_to_every_return_changes_nothing_by_group(rewards: list[list[float]], constant: float) -> None:
    moved = [[*turns[:-1], turns[-1] + constant] for turns in rewards]
    assert list(chain(*group_mean(moved))) == pytest.approx(list(chain(*group_mean(rewards))), abs=1e-5)


def test_a_group_of_one_learns_nothing() -> None:
    assert group_mean([[1.0, 2.0]]) == [[0, 0]]
    assert turn_return([[1.0, 2.0]]) == [[0, 0]]
