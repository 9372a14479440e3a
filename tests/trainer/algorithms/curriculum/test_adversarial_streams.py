"""Horizons and group sizes stay within their bounds on any stream of lengths and rewards, and repeat from their state.

A horizon does not oscillate: growing schedules never fall, and that of a task falls once, at its first success.
"""

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from turnwise.records import ScoredGroup, Task
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.group_sizes.base import MIN_SIZE, GroupSize
from turnwise.trainer.algorithms.group_sizes.constant import ConstantSize
from turnwise.trainer.algorithms.group_sizes.dars import Dars
from turnwise.trainer.algorithms.group_sizes.dart import Dart
from turnwise.trainer.algorithms.horizons.additive import AdditiveHorizon
from turnwise.trainer.algorithms.horizons.base import HorizonSchedule
from turnwise.trainer.algorithms.horizons.constant import ConstantHorizon
from turnwise.trainer.algorithms.horizons.multiplicative import MultiplicativeHorizon
from turnwise.trainer.algorithms.horizons.staged import StagedHorizon
from turnwise.trainer.algorithms.horizons.successful_length import SuccessfulLength
from turnwise.trainer.algorithms.registry import component_names

TASKS = [Task(f"t{number}", "e", "0", number, "train") for number in range(3)]
LIMIT = st.integers(1, 40)
REWARD = st.floats(-1e12, 1e12) | st.sampled_from([0.0, 0.5, 1.0, -0.0])
MEMBER = st.lists(REWARD, max_size=60)
"""The rewards of an episode's turns; the horizon does not bound their number, and there may be none."""
STREAM = st.lists(st.tuples(st.sampled_from(TASKS), st.lists(MEMBER, min_size=2, max_size=6)), max_size=12)
Stream = Sequence[tuple[Task, list[list[float]]]]


def group(task: Task, members: list[list[float]]) -> ScoredGroup:
    return scored_group(members, task=task)


@st.composite
def horizons(draw: st.DrawFn) -> HorizonSchedule:
    most, tokens = draw(LIMIT), {"max_tokens_per_turn": draw(LIMIT), "max_tokens_per_episode": draw(LIMIT)}
    grown = {"max_turns": most, "start": draw(LIMIT), "interval": draw(LIMIT)} | tokens
    stages = draw(st.lists(LIMIT, min_size=1, max_size=4))
    boundaries = sorted(draw(st.lists(LIMIT, min_size=len(stages) - 1, max_size=len(stages) - 1)))
    learned = {"margin": draw(st.floats(1, 1e6)), "min_return": draw(st.floats(-1e6, 1e6))}
    choices: list[HorizonSchedule] = [
        ConstantHorizon(max_turns=most, **tokens),
        AdditiveHorizon(step=draw(LIMIT), **grown),
        MultiplicativeHorizon(**grown),
        StagedHorizon(stages=stages, boundaries=boundaries, **tokens),
        SuccessfulLength(max_turns=most, **learned, **tokens),
    ]
    return draw(st.sampled_from(choices))


@settings(max_examples=50)
@given(horizons(), STREAM)
@example(SuccessfulLength(min_return=-1.0), [(TASKS[0], [[], []])] * 2)
def test_a_horizon_is_within_its_bounds_and_does_not_oscillate(schedule: HorizonSchedule, stream: Stream) -> None:
    again = schedule.model_copy(deep=True)
    seen: dict[str, list[int]] = {task.id: [] for task in TASKS}
    for update, (task, members) in enumerate(stream):
        for one in TASKS:
            found = schedule.horizon(one, update)
            assert 1 <= found.max_turns <= schedule.longest_turns()
            assert found.max_tokens_per_turn == schedule.max_tokens_per_turn
            assert found.max_tokens_per_episode == schedule.max_tokens_per_episode
            seen[one.id].append(found.max_turns)
        schedule.observe(group(task, members))
        again.load_state_dict(json.loads(json.dumps(again.state_dict())))
        again.observe(group(task, members))
        assert [again.horizon(one, update) for one in TASKS] == [schedule.horizon(one, update) for one in TASKS]
    falls = 1 if isinstance(schedule, SuccessfulLength) else 0
    if not isinstance(schedule, StagedHorizon):
        for turns in seen.values():
            assert sum(after < before for before, after in pairwise(turns)) <= falls, turns


@settings(max_examples=50)
@given(
    st.sampled_from([ConstantSize(), Dart(), Dart(threshold=1.0, min_size=9), Dars(), Dars(schedule="hw", max_size=3)]),
    st.integers(MIN_SIZE, 16),
    STREAM,
)
def test_a_group_size_is_within_its_bounds(chosen: GroupSize, size: int, stream: Stream) -> None:
    sizes, again = (chosen.model_copy(deep=True) for _ in range(2))
    for task, members in stream:
        scored = group(task, members)
        assert all(MIN_SIZE <= sizes.checked_size(one, size) <= size for one in TASKS)
        added = sizes.checked_additional(scored)
        assert added == 0 or len(members) + added <= getattr(sizes, "max_size", 0)
        sizes.observe(scored)
        again.load_state_dict(json.loads(json.dumps(again.state_dict())))
        again.observe(scored)
        assert [again.size(one, size) for one in TASKS] == [sizes.size(one, size) for one in TASKS]


@pytest.mark.parametrize(
    ("base", "tested"),
    [
        (HorizonSchedule, {"constant", "additive", "multiplicative", "staged", "successful_length"}),
        (GroupSize, {"constant", "dart", "dars"}),
    ],
)
def test_every_shipped_component_is_tested(base: type[HorizonSchedule | GroupSize], tested: set[str]) -> None:
    assert set(component_names(base)) == tested
