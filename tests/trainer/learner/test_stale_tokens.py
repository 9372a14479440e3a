"""A rollout that spans weight updates: each token has its own version, age and weight, and each group one fate.

The importance ratio of stale tokens is that of their behavior log-probabilities: ``test_grpo``.
"""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from turnwise.records import PolicyVersion
from turnwise.tests.trainer.learner.test_batch import group, trajectory
from turnwise.tests.trainer.scored_groups import scored
from turnwise.trainer.algorithms.advantages.grpo import GRPO
from turnwise.trainer.algorithms.losses.decoupled_ppo import DecoupledPPO
from turnwise.trainer.learner.batch import assemble
from turnwise.trainer.learner.batch_stats import batch_items

TOKENS = 2
"""Sampled tokens per turn of the trajectories of ``test_batch``."""
UPDATE = 6
HISTORY = {
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
        HISTORY,
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
