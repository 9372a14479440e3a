"""Build samples from message trees, sweep stale tokens, and pack micro-batches."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import PrivateAttr
from turnwise.agents.rollout.control import LOSS_WEIGHT
from turnwise.errors import TurnwiseError
from turnwise.records import (
    NO_VERSION,
    Group,
    Horizon,
    Message,
    PolicyVersion,
    Role,
    ScoredGroup,
    Source,
    Status,
    Step,
    Task,
    Trajectory,
)
from turnwise.tests.trainer.scored_groups import scored
from turnwise.trainer.algorithms.advantages.base import GroupAdvantage
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.groups import Credit
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.algorithms.sample_filters.negative_advantage_weight import NegativeAdvantageWeight
from turnwise.trainer.learner.batch import assemble
from turnwise.trainer.learner.batch_stats import batch_items
from turnwise.trainer.learner.packing import pack
from turnwise.trainer.learner.samples import samples, staleness, sweep

NAN = float("nan")


def observed(index: int, parent: int | None, *tokens: int) -> Message:
    size = len(tokens)
    return Message(index, parent, Role.USER, Source.POLICY, tokens, [0] * size, [NAN] * size, [NO_VERSION] * size)


def sampled(index: int, parent: int, version: int, *tokens: int) -> Message:
    size = len(tokens)
    return Message(
        index, parent, Role.ASSISTANT, Source.POLICY, tokens, [1] * size, [-float(index)] * size, [version] * size
    )


def step(index: int, message: int, reward: float = 0.0) -> Step:
    return Step(index, "", "", "", reward, {}, False, False, True, "", message, 0.0, 0.0)


def trajectory(
    name: str, *rewards: float, versions: tuple[int, ...] = (), status: Status = Status.COMPLETED
) -> Trajectory:
    messages, steps = [], []
    for turn, reward in enumerate(rewards):
        messages.append(observed(2 * turn, 2 * turn - 1 if turn else None, 1, 2))
        messages.append(sampled(2 * turn + 1, 2 * turn, versions[turn] if versions else 0, 3, 4))
        steps.append(step(turn, 2 * turn + 1, reward))
    return Trajectory(name, "r", "g", 0, 0, status, steps=steps, messages=messages)


def group(*members: Trajectory, name: str = "g") -> Group:
    task = Task("t", "e", "0", 0, "train")
    return Group(name, "r", task, Horizon(8, 8, 64, 64), len(members), trajectories=members)


HISTORY = {
    0: PolicyVersion("r", 0, None, 0),
    1: PolicyVersion("r", 1, 0, 1),
    2: PolicyVersion("r", 2, 1, 1, abandoned=True),
    3: PolicyVersion("r", 3, 1, 2),
}


def assembled(groups: list[Group], update: int = 2, max_staleness: int = 1, filters=(), advantage=None):
    return assemble(
        [scored(one) for one in groups],
        HISTORY,
        update,
        max_staleness,
        advantage=advantage or GRPO(),
        filters=filters,
        loss=DecoupledPPO(),
        streams=[Random(0) for _ in filters],
    )


def test_a_path_of_messages_is_one_sample() -> None:
    (one,) = samples(trajectory("a", 0.0, 1.0))
    assert one.tokens.tolist() == [1, 2, 3, 4, 1, 2, 3, 4]
    assert one.mask.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert one.turns.tolist() == [-1, -1, 0, 0, -1, -1, 1, 1]
    assert one.sources.tolist() == [-1, -1, 0, 0, -1, -1, 0, 0]


def test_an_observation_without_an_answer_is_left_out() -> None:
    whole = trajectory("a", 0.0)
    longer = replace(whole, messages=[*whole.messages, observed(2, 1, 7, 8)])
    assert samples(longer)[0].tokens.tolist() == [1, 2, 3, 4]


def test_a_shared_message_is_trained_on_once() -> None:
    tree = [
        observed(0, None, 1),
        sampled(1, 0, 0, 2),
        observed(2, 1, 3),
        sampled(3, 2, 0, 4),
        observed(4, 1, 5),
        sampled(5, 4, 0, 6),
    ]
    two = Trajectory("a", "r", "g", 0, 0, steps=[step(0, 1), step(1, 3), step(2, 5)], messages=tree)
    first, second = samples(two)
    assert (first.tokens.tolist(), first.mask.tolist()) == ([1, 2, 3, 4], [0, 1, 0, 1])
    assert (second.tokens.tolist(), second.mask.tolist()) == ([1, 2, 5, 6], [0, 0, 0, 1])


def test_a_new_root_is_a_new_sample() -> None:
    tree = [observed(0, None, 1), sampled(1, 0, 0, 2), observed(2, None, 1, 9), sampled(3, 2, 0, 4)]
    two = Trajectory("a", "r", "g", 0, 0, steps=[step(0, 1), step(1, 3)], messages=tree)
    assert [one.tokens.tolist() for one in samples(two)] == [[1, 2], [1, 9, 4]]


def test_staleness_counts_updates_of_the_surviving_history() -> None:
    ages = staleness(np.array([0, 1, 2, 3, NO_VERSION], np.int32), HISTORY, 2)
    assert ages[:2].tolist() == [2, 1]
    assert ages[2] > 1000
    assert ages[3:].tolist() == [0, -1]
    assert sweep(ages, np.array([1, 1, 1, 1, 0], np.uint8), 1).tolist() == [0, 1, 0, 1, 0]
    assert sweep(ages, np.ones(5, np.bool_), 0).tolist() == [0, 0, 0, 1, 1]


def test_old_tokens_are_masked_and_their_trajectory_stays_in_the_baseline() -> None:
    train_batch = assembled([group(trajectory("a", 1.0, versions=(0,)), trajectory("b", 0.0, versions=(1,)))])
    assert [one.sample.trajectory for one in train_batch.samples] == ["b"]
    assert set(train_batch.samples[0].advantages) == {0.0, -0.5}
    assert (train_batch.sampled_tokens, train_batch.swept_tokens) == (4, 2)
    assert train_batch.groups == ["g"]


def test_a_group_with_nothing_left_to_train_on_expires() -> None:
    train_batch = assembled([group(trajectory("a", 1.0), trajectory("b", 0.0))])
    assert (train_batch.groups, train_batch.expired) == ([], ["g"])


class Counting(GRPO):
    """GRPO that counts its calls, as an estimator that learns from each would."""

    _calls: int = PrivateAttr(0)

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        self._calls += 1
        return super().__call__(groups)


def test_the_advantage_is_not_called_without_a_token_to_train_on() -> None:
    advantage = Counting()
    stale = group(trajectory("a", 1.0), trajectory("b", 0.0))
    assembled([stale], advantage=advantage)
    assert advantage._calls == 0
    fresh = group(trajectory("c", 1.0, versions=(3,)), trajectory("d", 0.0, versions=(3,)), name="h")
    assembled([stale, fresh], advantage=advantage)
    assert advantage._calls == 1


def test_a_trajectory_over_two_versions_keeps_its_fresh_tokens() -> None:
    train_batch = assembled([group(trajectory("a", 0.0, 1.0, versions=(0, 3)), trajectory("b", 0.0, versions=(3,)))])
    first = next(one for one in train_batch.samples if one.sample.trajectory == "a")
    assert first.weights.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert {item.trajectory: (item.tokens_trained, item.max_staleness) for item in batch_items(train_batch, {"g"})} == {
        "a": (2, 0),
        "b": (2, 0),
    }


def test_a_loss_receives_only_sources_that_it_accepts() -> None:
    expert = replace(trajectory("a", 1.0, versions=(3,)), source=Source.EXPERT)
    train_batch = assembled([group(expert, trajectory("b", 0.0, versions=(3,)))])
    assert [one.sample.trajectory for one in train_batch.samples] == ["b"]


class PerToken(GroupAdvantage):
    """The number of each sampled token in its turn, and one number for later turns."""

    def of_group(self, scored: ScoredGroup) -> Credit:
        return [[np.arange(2, dtype=np.float32) + 1, *[9.0] * (len(turns) - 1)] for turns in scored.rewards]


def test_an_advantage_may_be_given_per_token() -> None:
    members = trajectory("a", 1.0, 0.0, versions=(3, 3)), trajectory("b", 0.0, versions=(3,))
    train_batch = assembled([group(*members)], advantage=PerToken())
    assert [one.advantages.tolist() for one in train_batch.samples] == [[0, 0, 1, 2, 0, 0, 9, 9], [0, 0, 1, 2]]
    longer = replace(members[1], messages=[observed(0, None, 1), sampled(1, 0, 3, 3, 4, 5)])
    with pytest.raises(TurnwiseError, match=r"shape \(2,\) for turn 0, which has 3 sampled tokens"):
        assembled([group(members[0], longer)], advantage=PerToken())


def test_a_sample_filter_changes_weights_only() -> None:
    members = trajectory("a", 1.0, versions=(3,)), trajectory("b", 0.0, versions=(3,))
    train_batch = assembled([group(*members)], filters=[NegativeAdvantageWeight(weight=0.25)])
    assert [max(one.weights) for one in train_batch.samples] == [1.0, 0.25]


def test_pack_points_at_the_position_before_each_trained_token() -> None:
    train_batch = assembled([group(trajectory("a", 1.0, versions=(3,)), trajectory("b", 0.0, 0.0, versions=(3, 3)))])
    one = pack(train_batch.samples)
    assert one.lengths == [4, 8]
    assert one.token_ids.shape == one.position_ids.shape == (1, 12)
    assert one.position_ids[0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7]
    assert one.logit_positions.tolist() == [1, 2, 5, 6, 9, 10]
    assert one.token_ids[0, one.logit_positions + 1].tolist() == one.targets.tolist()


class Wrong(GroupAdvantage):
    """An advantage of another shape, a value that is not finite, or an exception."""

    fault: str

    def of_group(self, scored: ScoredGroup) -> Credit:
        match self.fault:
            case "turn":
                return [[1.0] * (len(turns) - 1) for turns in scored.rewards]
            case "member":
                return [[1.0] * len(turns) for turns in scored.rewards[1:]]
            case "nan":
                return [[NAN] * len(turns) for turns in scored.rewards]
        raise KeyError("boom")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("turn", "returned 1 values for trajectory a, which has 2 turns"),
        ("member", r"values for \[1\] trajectories per group; the groups of the batch have \[2\]"),
        ("nan", "not finite for trajectory a"),
        ("raises", "`__call__` of the advantage component `.*Wrong` raised KeyError: 'boom'"),
    ],
)
def test_an_advantage_that_breaks_its_contract_is_named(fault: str, message: str) -> None:
    members = trajectory("a", 1.0, 0.0, versions=(3, 3)), trajectory("b", 0.0, versions=(3,))
    with pytest.raises(TurnwiseError, match=message):
        assembled([group(*members)], advantage=Wrong(fault=fault))


def test_a_member_of_weight_0_is_not_trained_on() -> None:
    ignored = replace(trajectory("a", 1.0, versions=(3,)), extras={LOSS_WEIGHT: 0.0})
    train_batch = assembled([group(ignored, trajectory("b", 0.0, versions=(3,)))])
    assert [one.sample.trajectory for one in train_batch.samples] == ["b"]


TOKENS = 2
"""Sampled tokens per turn of ``trajectory``."""
UPDATE = 6
LONG_HISTORY = {
    **{number: PolicyVersion("r", number, max(0, number - 1), number) for number in range(UPDATE + 1)},
    7: PolicyVersion("r", 7, 3, 4, abandoned=True),
}
"""Versions by id; version 7 was abandoned by a resume, and 8 is unknown."""
VERSIONS = st.lists(st.integers(0, 8), min_size=1, max_size=5).map(tuple)
"""The version of each turn."""
GROUPS = st.lists(st.lists(VERSIONS, min_size=2, max_size=4), min_size=1, max_size=4)


@settings(max_examples=60)
@given(GROUPS, st.integers(0, 4))
def test_each_token_is_weighed_by_its_own_version_and_each_group_ends_once(
    versions: list[list[tuple[int, ...]]], bound: int
) -> None:
    groups, kept, fresh = [], dict[str, int](), dict[str, list[int]]()
    for number, members in enumerate(versions):
        played = []
        for member, turns in enumerate(members):
            name = f"{number}-{member}"
            played.append(trajectory(name, *([0.0] * (len(turns) - 1)), float(member), versions=turns))
            fresh[name] = [UPDATE - one for one in turns if one <= UPDATE and UPDATE - one <= bound]
            kept[name] = TOKENS * len(fresh[name])
        groups.append(replace(group(*played), id=str(number)))
    batch = assemble(
        [scored(one) for one in groups],
        LONG_HISTORY,
        UPDATE,
        bound,
        advantage=GRPO(),
        filters=(),
        loss=DecoupledPPO(),
        streams=(),
    )
    assert sorted([*batch.groups, *batch.expired]) == [one.id for one in groups]
    usable = {name.partition("-")[0] for name, count in kept.items() if count}
    assert set(batch.groups) == usable
    assert batch.sampled_tokens - batch.swept_tokens == sum(kept.values())
    for sample in batch.samples:
        ages, weights = sample.staleness[sample.sample.mask > 0], sample.weights[sample.sample.mask > 0]
        assert np.array_equal(weights > 0, ages <= bound)
        assert sorted(ages[weights > 0]) == sorted(
            age for age in fresh[sample.sample.trajectory] for _ in range(TOKENS)
        )
        assert not sample.weights[sample.sample.mask == 0].any()
    items = batch_items(batch, {one.id for one in groups})
    assert {one.trajectory: one.tokens_trained for one in items} == {name: n for name, n in kept.items() if n}
    assert all(one.max_staleness == max(fresh[one.trajectory]) for one in items)
