"""Advantages per trajectory (GRPO) and per turn (turn return)."""

import math
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.advantages._returns import returns_to_go
from turnwise.trainer.algorithms.advantages.base import GroupAdvantage
from turnwise.trainer.algorithms.advantages.gigpo import GiGPO
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.advantages.reinforce_pp import ReinforcePP
from turnwise.trainer.algorithms.advantages.turn_return import TurnReturn

REWARDS = st.lists(st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=6), min_size=1, max_size=6)


def credit(estimator: GroupAdvantage, rewards: list[list[float]]) -> list[list[float]]:
    """Return the advantages per turn of a group with these rewards."""
    return [[float(value) for value in turns] for turns in estimator.of_group(scored_group(rewards))]


def test_grpo_gives_each_turn_the_advantage_of_its_trajectory() -> None:
    assert credit(GRPO(), [[0, 1], [0], [0, 0, 0.5]]) == [[0.5, 0.5], [-0.5], [0, 0, 0]]


def test_grpo_with_normalize_std_has_unit_deviation() -> None:
    flat = [turns[0] for turns in credit(GRPO(normalize_std=True), [[1.0], [0.0], [0.0], [1.0]])]
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
    for i, turns in enumerate(credit(TurnReturn(gamma=gamma), rewards)):
        expected = [advantage_by_definition(rewards, gamma, i, turn) for turn in range(len(turns))]
        assert turns == pytest.approx(expected, abs=1e-6)


@given(REWARDS.filter(lambda rewards: len(rewards) > 1), st.floats(0, 1))
def test_the_advantage_of_a_turn_is_bounded_by_the_range_of_returns(rewards: list[list[float]], gamma: float) -> None:
    values = list(chain.from_iterable(returns_to_go(turns, gamma) for turns in rewards))
    bound = max(values) - min(values) + 1e-6
    advantages = credit(TurnReturn(gamma=gamma), rewards)
    assert [len(turns) for turns in advantages] == [len(turns) for turns in rewards]
    assert all(math.isfinite(value) and abs(value) <= bound for turns in advantages for value in turns)


@pytest.mark.parametrize("gamma", [1.0, 0.95, 0.9, 0.5])
def test_the_last_member_alive_that_fails_is_not_penalized_beyond_its_failure(gamma: float) -> None:
    advantages = credit(TurnReturn(gamma=gamma), [[1.0]] * 7 + [[0.0] * 30])
    assert advantages[7] == pytest.approx([-1.0] * 30)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.floats(-2, 2, width=32)), min_size=2, max_size=6),
)
def test_with_a_final_reward_only_each_turn_gets_the_leave_one_out_advantage(
    episodes: list[tuple[int, float]],
) -> None:
    rewards = [[0.0] * (length - 1) + [reward] for length, reward in episodes]
    total = sum(reward for _, reward in episodes)
    for (length, reward), turns in zip(episodes, credit(TurnReturn(), rewards), strict=True):
        others = (total - reward) / (len(episodes) - 1)
        assert turns == pytest.approx([reward - others] * length, abs=1e-5)


def test_the_scale_of_the_advantage_does_not_depend_on_the_number_of_members_alive() -> None:
    assert credit(TurnReturn(), [[0, 0, 0, 1.0], [0, 0, 0.0], [0.0]])[0] == pytest.approx([1.0] * 4)


def test_two_last_members_that_fail_alike_are_compared_with_those_that_succeeded() -> None:
    advantages = credit(TurnReturn(), [[1.0], [1.0], [0, 0, 0.0], [0, 0, 0.0]])
    assert advantages[2] == pytest.approx([-2 / 3] * 3)
    assert advantages[3] == advantages[2]


def test_rewards_before_a_turn_do_not_enter_its_advantage_over_members_alive() -> None:
    advantages = credit(TurnReturn(), [[1.0, 0.0], [0.0, 0.0]])
    assert advantages == [[1.0, 0.0], [-1.0, 0.0]]


@given(REWARDS)
def test_the_advantages_of_a_turn_that_all_members_reach_sum_to_zero(rewards: list[list[float]]) -> None:
    advantages = credit(TurnReturn(gamma=0.9), rewards)
    for turn in range(min(map(len, rewards))):
        assert sum(turns[turn] for turns in advantages) == pytest.approx(0, abs=1e-5)


@given(REWARDS, st.floats(-1, 1))
def test_grpo_is_invariant_to_a_constant_added_to_every_return(rewards: list[list[float]], constant: float) -> None:
    moved = [[*turns[:-1], turns[-1] + constant] for turns in rewards]
    assert list(chain(*credit(GRPO(), moved))) == pytest.approx(list(chain(*credit(GRPO(), rewards))), abs=1e-5)


def test_a_group_of_one_has_zero_advantages() -> None:
    assert credit(GRPO(), [[1.0, 2.0]]) == [[0, 0]]
    assert credit(TurnReturn(), [[1.0, 2.0]]) == [[0, 0]]


def test_gigpo_adds_the_comparison_with_turns_in_the_same_state() -> None:
    """By hand: returns 1, 0, 0; returns-to-go (.5, 1), (0, 0), (0, 0); state A has .5, 0, 0; B has 1, 0; C has one."""
    scored = scored_group([[0, 1], [0, 0], [0, 0]], states=[["A", "B"], ["A", "C"], ["A", "B"]])
    estimator = GiGPO(gamma=0.5, normalize_std=False)
    first, second, third = estimator.of_group(scored)
    assert first == pytest.approx([2 / 3 + 1 / 3, 2 / 3 + 1 / 2])
    assert second == pytest.approx([-1 / 3 - 1 / 6, -1 / 3])
    assert third == pytest.approx([-1 / 3 - 1 / 6, -1 / 3 - 1 / 2])
    assert estimator.metrics() == {"shared_state_fraction": pytest.approx(5 / 6)}


def test_gigpo_divides_each_comparison_by_its_own_deviation() -> None:
    scored = scored_group([[0, 1], [0, 0]], states=[["A", "B"], ["A", "C"]])
    first, second = GiGPO(gamma=0.5, step_weight=2.0).of_group(scored)
    assert first == pytest.approx([1 + 2, 1], abs=1e-4)
    assert second == pytest.approx([-1 - 2, -1], abs=1e-4)


def test_gigpo_without_states_is_grpo() -> None:
    rewards = [[0.0, 1.0], [0.5], [0.0, 0.0, 0.25]]
    expected = credit(GRPO(normalize_std=True), rewards)
    assert credit(GiGPO(), rewards) == [pytest.approx(turns) for turns in expected]


def test_reinforce_pp_whitens_over_the_tokens_of_the_batch() -> None:
    """By hand: 2 tokens with return 1 and 2 + 4 with 0: mean .25, variance .1875."""
    groups = [scored_group([[1], [0]], tokens=2), scored_group([[0]], tokens=4)]
    (first, second), (third,) = ReinforcePP()(groups)
    assert [*first, *second, *third] == pytest.approx([1.7320508, -0.5773503, -0.5773503])


def test_reinforce_pp_with_a_group_baseline() -> None:
    """By hand: 2 tokens with .5, 2 with -.5 and 4 with 0: mean 0, variance .125."""
    groups = [scored_group([[1], [0]], tokens=2), scored_group([[0, 0]], tokens=2)]
    (first, second), (third,) = ReinforcePP(group_baseline=True)(groups)
    assert [*first, *second, *third] == pytest.approx([1.4142136, -1.4142136, 0, 0])


def test_reinforce_pp_discounts_per_turn() -> None:
    ((turns, _),) = ReinforcePP(gamma=0.5)([scored_group([[0, 1], [0, 0]])])
    assert float(turns[1]) > float(turns[0]) > 0
