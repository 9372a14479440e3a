"""Horizons bound the length of episodes by update or task; the size of a group follows the success of its task."""

from dataclasses import replace
from typing import Literal

import pytest
from pydantic import ValidationError
from turnwise.records import ScoredGroup, Status, Task
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.group_sizes.constant import ConstantSize
from turnwise.trainer.algorithms.group_sizes.dars import Dars
from turnwise.trainer.algorithms.group_sizes.dart import Dart
from turnwise.trainer.algorithms.groups import successes
from turnwise.trainer.algorithms.horizons.additive import AdditiveHorizon
from turnwise.trainer.algorithms.horizons.base import HorizonSchedule
from turnwise.trainer.algorithms.horizons.multiplicative import MultiplicativeHorizon
from turnwise.trainer.algorithms.horizons.staged import StagedHorizon
from turnwise.trainer.algorithms.horizons.successful_length import SuccessfulLength
from turnwise.trainer.algorithms.task_samplers.mopps import MoPPS

TASK = Task("t", "e", "0", 0, "train")


def turns(schedule: HorizonSchedule, updates: int) -> list[int]:
    return [schedule.horizon(TASK, update).max_turns for update in range(updates)]


def test_staged_follows_its_boundaries() -> None:
    assert turns(StagedHorizon(), 6) == [10, 20, 20, 30, 30, 30]
    assert StagedHorizon().longest().max_turns == 30


def test_additive_and_multiplicative_grow_to_the_limit() -> None:
    assert turns(AdditiveHorizon(max_turns=6, start=4, step=1, interval=2), 6) == [4, 4, 5, 5, 6, 6]
    assert turns(MultiplicativeHorizon(max_turns=10, start=4, interval=1), 4) == [4, 8, 10, 10]


def test_the_number_of_boundaries_must_match_the_stages() -> None:
    with pytest.raises(ValidationError, match="one fewer"):
        StagedHorizon(stages=[4, 8], boundaries=[])
    with pytest.raises(ValidationError, match="max_turns"):
        StagedHorizon(max_turns=12)  # type: ignore[call-arg]


def solved(count: int, members: int, turns: int = 1) -> ScoredGroup:
    """Return a group of ``TASK`` with so many successes, each after ``turns`` turns."""
    won, lost = [0.0] * (turns - 1) + [1.0], [0.0] * 12
    return scored_group([won] * count + [lost] * (members - count), task=TASK)


@pytest.mark.parametrize(("successes", "size"), [(0, 8), (50, 8), (60, 8), (75, 5), (80, 4), (90, 3), (100, 2)])
def test_dart_lowers_the_size_with_the_success_rate(successes: int, size: int) -> None:
    """Golden vector: success rates .6, .75, .8, .9 and 1 give 8, 5, 4, 3 and 2 members."""
    sizes = Dart()
    assert sizes.size(TASK, 8) == 8
    sizes.observe(solved(successes, 100))
    assert sizes.size(TASK, 8) == size
    again = Dart()
    again.load_state_dict(sizes.state_dict())
    assert again.size(TASK, 8) == size


@pytest.mark.parametrize(
    ("members", "expected"), [(4, [4, 2, 2, 2]), (8, [8, 5, 3, 2]), (12, [12, 7, 4, 3]), (16, [16, 10, 6, 4])]
)
def test_dart_scales_its_counts_with_the_size_of_the_group(members: int, expected: list[int]) -> None:
    """By hand: N / 8 * (9 / s - 7) at s = .6, .75, .9 and 1, at least 2."""
    found = []
    for won in (60, 75, 90, 100):
        sizes = Dart()
        sizes.observe(solved(won, 100))
        found.append(sizes.size(TASK, members))
    assert found == expected


def test_dart_does_not_jump_at_its_threshold() -> None:
    sizes = [Dart() for _ in range(2)]
    for one, won in zip(sizes, (59, 60), strict=True):
        one.observe(solved(won, 100))
    assert [one.size(TASK, 32) for one in sizes] == [32, 32]


FAILED = [[0.2, 0.2, 0.2]] * 3
"""Returns of .6, as those of episodes that reached sub-goals only."""


def test_the_verdict_counts_and_not_the_return() -> None:
    lost, won = (scored_group(FAILED, task=TASK, verdicts=[verdict] * 3) for verdict in (False, True))
    cut = scored_group(FAILED, task=TASK, status=Status.TRUNCATED)
    assert [successes(one) for one in (lost, won, cut)] == [[False] * 3, [True] * 3, [False] * 3]
    assert successes(scored_group(FAILED, task=TASK)) == [True] * 3
    assert successes(scored_group(FAILED, task=TASK), 0.9) == [False] * 3
    for one in (lost, cut):
        assert Dars().additional(one) == Dars().additional(scored_group([[0.0]] * 3, task=TASK)) > 0
        sizes, horizon, tasks = Dart(), SuccessfulLength(max_turns=12), MoPPS()
        for component in (sizes, horizon, tasks):
            component.observe(one)
        assert (sizes.size(TASK, 8), horizon.horizon(TASK, 0).max_turns) == (8, 12)
        assert tasks.posterior(TASK.id) == (1.0, 4.0)


def test_dart_forgets_groups_before_the_latest() -> None:
    sizes = Dart(latest_groups=2)
    for won in (8, 8, 0, 0):
        sizes.observe(solved(won, 8))
    assert sizes.size(TASK, 8) == 8


@pytest.mark.parametrize(
    ("schedule", "added"), [("et", (27, 11, 3, 1, 0, 0, 0, 0, 0)), ("hw", (56, 24, 8, 3, 0, 0, 0, 0, 0))]
)
def test_dars_adds_members_to_hard_tasks(schedule: Literal["et", "hw"], added: tuple[int, ...]) -> None:
    """Golden vector: 8 members, at most 64; 0, 1, 2, 3 and 4 successes add 27, 11, 3, 1, 0 or 56, 24, 8, 3, 0."""
    sizes = Dars(schedule=schedule)
    assert tuple(sizes.additional(solved(won, 8)) for won in range(9)) == added
    assert sizes.size(TASK, 8) == 8
    assert [sizes.has_second_stage, ConstantSize().has_second_stage] == [True, False]


def test_dars_reports_the_size_of_both_stages() -> None:
    sizes = Dars()
    assert sizes.metrics() == {}
    for members in (8, 20):
        sizes.observe(solved(1, members))
    again = Dars()
    again.load_state_dict(sizes.state_dict())
    assert again.metrics() == {"mean_size": 14}
    again.load_state_dict({})
    assert again.metrics() == {}


def test_dars_stays_below_its_largest_group() -> None:
    assert [Dars(max_size=limit).additional(solved(0, 8)) for limit in (12, 8, 4)] == [4, 0, 0]


def test_dars_lifts_advantages_that_are_divided_by_the_standard_deviation() -> None:
    """By hand: 1 of 8 gives S = 2 * sqrt(7) / 8, and 8 / S - 8 = 4.09 members."""
    assert Dars(normalize_std=True).additional(solved(1, 8)) == 5
    assert Dars(normalize_std=True, schedule="hw").additional(solved(1, 8)) == 14


def test_a_task_that_was_solved_gets_a_horizon_by_its_longest_success() -> None:
    schedule = SuccessfulLength(max_turns=12, margin=1.5)
    other = replace(TASK, id="other")
    schedule.observe(solved(0, 4))
    assert schedule.horizon(TASK, 0).max_turns == 12
    schedule.observe(solved(1, 4, turns=3))
    assert (schedule.horizon(TASK, 9).max_turns, schedule.horizon(other, 9).max_turns) == (5, 12)
    schedule.observe(solved(1, 4, turns=11))
    schedule.observe(solved(4, 4, turns=2))
    assert schedule.horizon(TASK, 9).max_turns == schedule.longest().max_turns == 12


def test_a_horizon_widens_again_while_its_task_fails() -> None:
    """By hand, from one success of 3 turns: 5, then ceil(1.5 * 5) = 8, then 12; a short success does not lower it."""
    schedule = SuccessfulLength(max_turns=12, margin=1.5)
    schedule.observe(solved(1, 4, turns=3))
    found = [schedule.horizon(TASK, 0).max_turns]
    for won in (0, 1, 0, 0, 1):
        schedule.observe(solved(won, 4, turns=3))
        found.append(schedule.horizon(TASK, 0).max_turns)
    assert found == [5, 8, 8, 12, 12, 12]
    narrow = SuccessfulLength(max_turns=12, margin=1.0)
    for won in (1, 0):
        narrow.observe(solved(won, 4, turns=3))
    assert narrow.horizon(TASK, 0).max_turns == 4
    narrow.observe(solved(0, 0))
    assert narrow.horizon(TASK, 0).max_turns == 4, "a failed group without members shows nothing"


def test_a_horizon_widens_while_it_ends_more_episodes_than_succeed() -> None:
    """By hand: 5 after one success of 3 turns; with two cut episodes beside it 8, then 12; beside one, still 12."""
    schedule = SuccessfulLength(max_turns=30, margin=1.5)
    schedule.observe(solved(1, 4, turns=3))
    found = []
    for cut, of_turns, allowed in ((1, 12, 5), (2, 2, 5), (2, 5, 5), (2, 5, 5), (2, 8, 8), (1, 12, 12)):
        group = solved(1, 3, turns=3)
        horizon = replace(group.group.horizon, max_turns=allowed)
        members = [
            replace(one, status=Status.TRUNCATED) if at > 2 - cut else one
            for at, one in enumerate(group.group.trajectories)
        ]
        rewards = [group.rewards[0], *[[0.0] * of_turns] * 2]
        schedule.observe(
            replace(group, group=replace(group.group, trajectories=members, horizon=horizon), rewards=rewards)
        )
        found.append(schedule.horizon(TASK, 0).max_turns)
    assert found == [5, 5, 8, 8, 12, 12], "neither one of two turns, nor one under a limit of before, was cut by it"
