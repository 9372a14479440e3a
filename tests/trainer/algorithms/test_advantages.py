"""Advantages per trajectory (GRPO) and per turn (turn return)."""

import math
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.advantages.turn_return import TurnReturn, returns_to_go

REWARDS = st.lists(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6), min_size=1, max_size=6)


def test_grpo_gives_each_turn_the_advantage_of_its_trajectory() -> None:
    assert GRPO()([[0, 1], [0], [0, 0, 0.5]]) == [[0.5, 0.5], [-0.5], [0, 0, 0]]


def test_grpo_with_normalize_std_has_unit_deviation() -> None:
    flat = [turns[0] for turns in GRPO(normalize_std=True)([[1.0], [0.0], [0.0], [1.0]])]
    assert flat == pytest.approx([1, -1, -1, 1], abs=1e-5)


def test_returns_to_go_are_discounted_sums() -> None:
    assert returns_to_go([1, 1, 1], 0.5) == [1.75, 1.5, 1]


def advantage_by_definition(rewards: list[list[float]], gamma: float, i: int, turn: int) -> float:
    """Return the advantage of one turn of member ``i``, derived from the policy gradient.

    The gradient of the discounted return is ``sum_t grad log pi(a_t) * (gamma**t * G_t - b_t)``, for any ``b_t`` that
    does not depend on ``a_t``. Common practice replaces the weight ``gamma**t`` by 1.

    * A peer that is alive at the turn estimates the value of the turn by its own return-to-go. With weight 1:
      ``G_i,t - G_j,t``.
    * A peer that has ended has no return-to-go at the turn, only its whole return, in units of the first turn.
      In those units the weight is ``gamma**t``. To equal the peer, member ``i`` still needs ``R_j - C_i,t``, where
      ``C_i,t`` is the discounted reward it has collected: ``gamma**t * G_i,t - (R_j - C_i,t)``.
    """

    def discounted(turns: list[float]) -> float:
        return sum(gamma**k * reward for k, reward in enumerate(turns))

    collected, to_go = discounted(rewards[i][:turn]), discounted(rewards[i][turn:])
    terms = [
        to_go - discounted(peer[turn:]) if turn < len(peer) else gamma**turn * to_go - (discounted(peer) - collected)
        for j, peer in enumerate(rewards)
        if j != i
    ]
    return sum(terms) / len(terms)


@given(REWARDS.filter(lambda rewards: len(rewards) > 1), st.sampled_from([1.0, 0.9, 0.5]))
def test_turn_return_is_the_return_to_go_less_a_leave_one_out_baseline(
    rewards: list[list[float]], gamma: float
) -> None:
    for i, turns in enumerate(TurnReturn(gamma=gamma)(rewards)):
        expected = [advantage_by_definition(rewards, gamma, i, turn) for turn in range(len(turns))]
        assert turns == pytest.approx(expected, abs=1e-6)


@given(REWARDS.filter(lambda rewards: len(rewards) > 1), st.floats(0, 1))
def test_the_advantage_of_a_turn_is_bounded_by_the_range_of_returns(rewards: list[list[float]], gamma: float) -> None:
    values = list(chain.from_iterable(returns_to_go(turns, gamma) for turns in rewards))
    bound = max(values) - min(values) + 1e-6
    advantages = TurnReturn(gamma=gamma)(rewards)
    assert [len(turns) for turns in advantages] == [len(turns) for turns in rewards]
    assert all(math.isfinite(value) and abs(value) <= bound for turns in advantages for value in turns)


@pytest.mark.parametrize("gamma", [1.0, 0.95, 0.9, 0.5])
def test_the_last_member_alive_that_fails_is_not_penalized_beyond_its_failure(gamma: float) -> None:
    advantages = TurnReturn(gamma=gamma)([[1.0]] * 7 + [[0.0] * 30])
    assert advantages[7] == pytest.approx([-1.0] * 30)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(-2, 2, width=32)), min_size=2, max_size=6),
)
def test_with_a_final_reward_only_each_turn_gets_the_leave_one_out_advantage(
    episodes: list[tuple[int, float]],
) -> None:
    rewards = [[0.0] * (length - 1) + [reward] for length, reward in episodes]
    total = sum(reward for _, reward in episodes)
    for (length, reward), turns in zip(episodes, TurnReturn()(rewards), strict=True):
        others = (total - reward) / (len(episodes) - 1)
        assert turns == pytest.approx([reward - others] * length, abs=1e-5)


def test_the_scale_of_the_advantage_does_not_depend_on_the_number_of_members_alive() -> None:
    assert TurnReturn()([[0, 0, 0, 1.0], [0, 0, 0.0], [0.0]])[0] == pytest.approx([1.0] * 4)


def test_two_last_members_that_fail_alike_are_compared_with_those_that_succeeded() -> None:
    advantages = TurnReturn()([[1.0], [1.0], [0, 0, 0.0], [0, 0, 0.0]])
    assert advantages[2] == pytest.approx([-2 / 3] * 3)
    assert advantages[3] == advantages[2]


def test_rewards_before_a_turn_do_not_enter_its_advantage_over_members_alive() -> None:
    advantages = TurnReturn()([[1.0, 0.0], [0.0, 0.0]])
    assert advantages == [[1.0, 0.0], [-1.0, 0.0]]


@given(REWARDS)
def test_the_advantages_of_a_turn_that_all_members_reach_sum_to_zero(rewards: list[list[float]]) -> None:
    advantages = TurnReturn(gamma=0.9)(rewards)
    for turn in range(min(map(len, rewards))):
        assert sum(turns[turn] for turns in advantages) == pytest.approx(0, abs=1e-5)


@given(REWARDS, st.floats(-1, 1))
def test_grpo_is_invariant_to_a_constant_added_to_every_return(rewards: list[list[float]], constant: float) -> None:
    moved = [[*turns[:-1], turns[-1] + constant] for turns in rewards]
    assert list(chain(*GRPO()(moved))) == pytest.approx(list(chain(*GRPO()(rewards))), abs=1e-5)


def test_a_group_of_one_has_zero_advantages() -> None:
    assert GRPO()([[1.0, 2.0]]) == [[0, 0]]
    assert TurnReturn()([[1.0, 2.0]]) == [[0, 0]]
