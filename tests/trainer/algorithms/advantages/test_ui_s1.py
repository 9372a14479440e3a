"""UI-S1: a mismatch cuts the return, and both terms are in standard deviations."""

from collections.abc import Sequence
from math import nan, sqrt

import pytest
from turnwise.records import (
    NO_VERSION,
    Group,
    Horizon,
    Message,
    Role,
    ScoredGroup,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.trainer.algorithms.advantages.ui_s1 import UIS1, _returns, mismatches


def member(rewards: list[float], patched: set[int], wrong: Sequence[int] = ()) -> Trajectory:
    """Return a trajectory with an observation and an action per turn, and a patch after some of them.

    Args:
        wrong: the mismatches that the environment reports.
    """
    messages: list[Message] = []
    steps = []
    for turn, reward in enumerate(rewards):
        for role, source in (
            (Role.USER, Source.POLICY),
            (Role.ASSISTANT, Source.POLICY),
            *([(Role.ASSISTANT, Source.PATCH)] if turn in patched else []),
        ):
            size = len(messages)
            messages.append(Message(size, size - 1 if size else None, role, source, [1], [0], [nan], [NO_VERSION]))
        steps.append(Step(turn, "", "", "", reward, {}, False, False, True, "", len(messages) - 1, 0.0, 0.0))
    return Trajectory(
        "t", "r", "g", 0, 0, Status.COMPLETED, steps=steps, messages=messages, extras={"wrong_turns": list(wrong)}
    )


def scored(*members: Trajectory) -> ScoredGroup:
    group = Group("g", "r", Task("t", "e", "0", 0, "train"), Horizon(8, 8, 64, 64), 2, trajectories=members)
    return ScoredGroup(group, [[step.reward for step in one.steps] for one in members])


def test_mismatches_have_a_patch_or_are_named_by_the_environment() -> None:
    assert mismatches(member([1.0, 0.5, 1.0], {1})) == {1}
    assert mismatches(member([1.0, 0.5, 0.5], {1}, [1, 2])) == {1, 2}


def test_the_return_restarts_at_a_mismatch() -> None:
    """Golden vector of the released code; a mismatch at the end gives nothing to the turns before it, either."""
    assert _returns([1, 1, 0.19, 1], {2}, 0.5) == [1.5, 1.0, 0.19, 1.0]
    assert _returns([1, 1, 0.55], {2}, 0.5) == [1.5, 1.0, 0.55]
    assert _returns([0.55, 0.19, 1, 1], {0, 1}, 0.5) == [0.55, 0.19, 1.5, 1.0]
    assert _returns([1, 1, 1], set(), 0.5) == [1.75, 1.5, 1.0]


def test_the_mismatch_that_ends_an_episode_has_no_patch() -> None:
    """Returns at the first turn: 1 where the second action was wrong and ended the episode, 1 + .5 elsewhere."""
    ended, kept = member([1.0, 0.55], set(), [1]), member([1.0, 1.0], set())
    found = UIS1(episode_weight=0).of_group(scored(ended, kept))
    assert [turns[0] for turns in found] == pytest.approx([-1, 1], abs=1e-4)
    same = UIS1(episode_weight=0).of_group(scored(ended, member([1.0], set())))
    assert [turns[0] for turns in same] == [0, 0]


def test_the_return_of_a_turn_ends_at_a_patch() -> None:
    """Returns: [1, .5, 1] and [1 + .5 * (1 + .5), 1 + .5, 1]; the first member's second turn was patched."""
    kept, patched = member([1.0, 1.0, 1.0], set()), member([1.0, 0.5, 1.0], {1})
    found = UIS1(episode_weight=0).of_group(scored(patched, kept))
    assert found[0] == pytest.approx([-1, -1, 0], abs=1e-4)
    assert found[1] == pytest.approx([1, 1, 0], abs=1e-4)


def test_the_first_term_compares_all_turns_of_the_group() -> None:
    found = UIS1(step_weight=0).of_group(scored(member([1.0, 0.5], {1}), member([1.0], set())))
    deviation = sqrt(1 / 18)
    mean = 2.5 / 3
    expected = [[(1 - mean) / deviation, (0.5 - mean) / deviation], [(1 - mean) / deviation]]
    assert [pytest.approx(turns, abs=1e-3) for turns in expected] == found


def test_a_turn_that_no_other_member_reached_has_no_second_term() -> None:
    found = UIS1(episode_weight=0).of_group(scored(member([1.0, 0.5], set()), member([1.0], set())))
    assert found[0][1] == 0


def test_an_empty_group_has_no_advantage() -> None:
    assert UIS1().of_group(scored()) == []
