"""The scoring of a closed group: shapers in order, filters on shaped rewards, too few members, invalid rewards."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pydantic import ConfigDict
from turnwise.errors import TurnwiseError
from turnwise.records import Group, GroupState, Status
from turnwise.tests.trainer.scored_groups import scored_group
from turnwise.trainer.algorithms.group_filters.zero_variance import ZeroVariance
from turnwise.trainer.algorithms.group_sizes.dars import Dars
from turnwise.trainer.algorithms.group_sizes.dart import Dart
from turnwise.trainer.algorithms.groups import PerTurn, Shaped, counted_successes, successes
from turnwise.trainer.algorithms.horizons.successful_length import SuccessfulLength
from turnwise.trainer.algorithms.rewards.base import RewardShaper
from turnwise.trainer.algorithms.rewards.turn_penalty import TurnPenalty
from turnwise.trainer.algorithms.task_samplers.mopps import MoPPS
from turnwise.trainer.learner.batch import _task_success
from turnwise.trainer.rollout.scoring import score


class Add(RewardShaper):
    """Adds ``values[i]`` to the last turn of member ``i``; NaN stands for no score."""

    values: list[float]

    model_config = ConfigDict(allow_inf_nan=True)

    def __call__(self, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
        answers = []
        for value, turns in zip(self.values, rewards, strict=True):
            shaped = None if math.isnan(value) else [*turns[:-1], turns[-1] + value]
            answers.append(Shaped(shaped, {"added": str(value)}))
        return answers


def test_shapers_apply_in_order_and_the_second_sees_only_scored_members() -> None:
    group = scored_group([[0, 1], [1], [0]]).group
    result = score(group, [Add(values=[1, math.nan, 2]), Add(values=[10, 20])], [])
    assert result.scored.rewards == [[0, 12], [22]]
    assert [one.id for one in result.scored.group.trajectories] == ["g-0", "g-2"]
    assert (result.state, result.scored.unscored) == (GroupState.READY, 1)
    assert [one.rewards for one in result.rewards] == [[0, 12], None, [22]]
    assert [[verdict["added"] for verdict in one.verdicts] for one in result.rewards] == [
        ["1.0", "10.0"],
        ["nan"],
        ["2.0", "20.0"],
    ]


def test_a_filter_reads_shaped_rewards() -> None:
    equal, longer = scored_group([[1], [1]]).group, scored_group([[1], [0, 1]]).group
    assert score(equal, [], [ZeroVariance()]).state is GroupState.FILTERED
    assert score(equal, [Add(values=[0, 0.5])], [ZeroVariance()]).state is GroupState.READY
    assert score(longer, [], [ZeroVariance()]).state is GroupState.FILTERED
    assert score(longer, [TurnPenalty()], [ZeroVariance()]).state is GroupState.READY


def test_a_group_with_one_survivor_fails_without_a_call_of_a_shaper() -> None:
    group = scored_group([[1], [0]]).group
    failed = replace(group.trajectories[1], status=Status.ENV_ERROR, error="it broke")
    result = score(replace(group, trajectories=[group.trajectories[0], failed]), [Add(values=[])], [])
    assert result.reason == "1 of 2 members survived; env_error: it broke"
    assert (result.state, result.rewards, result.scored.rewards) == (GroupState.FAILED, (), [[1]])


def test_a_group_with_one_score_fails() -> None:
    result = score(scored_group([[1], [0]]).group, [Add(values=[0, math.nan])], [])
    assert (result.state, result.reason) == (GroupState.FAILED, "1 of 2 members got a score")


def test_a_reward_that_is_not_finite_is_an_error() -> None:
    with pytest.raises(TurnwiseError, match="not finite for trajectory g-1"):
        score(scored_group([[1], [0]]).group, [Add(values=[0, math.inf])], [])


def of_statuses(*statuses: Status) -> Group:
    """Return a group of successes in one turn, with these statuses."""
    group = scored_group([[1.0]] * len(statuses), verdicts=[True] * len(statuses)).group
    members = [replace(one, status=status) for one, status in zip(group.trajectories, statuses, strict=True)]
    return replace(group, trajectories=members)


@pytest.mark.parametrize("few", [False, True])
def test_curricula_count_the_failures_of_the_policy(few: bool) -> None:
    """Six timeouts and policy errors beside two successes, or beside one, which fails the group; no rate counts the
    three failures of the world."""
    won = [Status.COMPLETED] * (1 if few else 2)
    world = [Status.ENV_ERROR, Status.ENGINE_ERROR, Status.CANCELLED]
    group = of_statuses(*won, *[Status.TIMEOUT] * 4, *[Status.POLICY_ERROR] * 2, *world)
    result = score(group, [], [])
    assert result.state is (GroupState.FAILED if few else GroupState.READY)
    assert result.scored.failed_by_policy == 6
    assert successes(result.scored) == [True] * len(won)
    assert counted_successes(result.scored) == [True] * len(won) + [False] * 6
    sampler, sizes, task = MoPPS(), Dart(), group.task
    sampler.observe(result.scored)
    assert sampler.posterior(task.id) == (1 + len(won), 7)
    sizes.observe(result.scored)
    assert sizes.size(task, 8) == 8
    assert Dars().additional(result.scored) > 0
    horizon = SuccessfulLength(max_turns=12, margin=2)
    horizon.observe(score(of_statuses(Status.COMPLETED, Status.COMPLETED), [], []).scored)
    before = horizon.horizon(task, 0).max_turns
    horizon.observe(score(of_statuses(Status.TIMEOUT, Status.POLICY_ERROR), [], []).scored)
    assert (before, horizon.horizon(task, 0).max_turns) == (2, 4)


def test_the_share_of_a_task_in_a_batch_counts_the_failures_of_the_policy() -> None:
    scored = score(of_statuses(Status.COMPLETED, Status.COMPLETED, *[Status.TIMEOUT] * 6, Status.ENV_ERROR), [], [])
    assert _task_success([scored.scored]) == {scored.scored.group.task.id: 0.25}
