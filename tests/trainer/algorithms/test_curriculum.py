"""Horizon schedules bound the length of episodes, and admission bounds the number of groups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from turnwise.records import GroupState, Task
from turnwise.trainer.algorithms.curriculum.horizons.additive import AdditiveHorizon
from turnwise.trainer.algorithms.curriculum.horizons.base import HorizonSchedule
from turnwise.trainer.algorithms.curriculum.horizons.multiplicative import MultiplicativeHorizon
from turnwise.trainer.algorithms.curriculum.horizons.staged import StagedHorizon
from turnwise.trainer.rollout.admission import capacity

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


COUNT = st.integers(0, 100)


@given(COUNT, COUNT, COUNT, st.integers(1, 40), st.integers(0, 8), st.integers(1, 40))
def test_capacity_keeps_both_bounds(running: int, ready: int, leased: int, limit: int, eta: int, batch: int) -> None:
    counts = {GroupState.OPEN: running, GroupState.READY: ready, GroupState.LEASED: leased, GroupState.CONSUMED: 999}
    room = capacity(counts, max_concurrent_groups=limit, max_staleness=eta, groups_per_batch=batch)
    assert room >= 0
    if room:
        assert running + room <= limit
        assert running + room + ready + leased <= (eta + 1) * batch


def test_staleness_zero_opens_exactly_one_batch() -> None:
    assert capacity({}, max_concurrent_groups=99, max_staleness=0, groups_per_batch=16) == 16
    assert capacity({GroupState.LEASED: 16}, max_concurrent_groups=99, max_staleness=0, groups_per_batch=16) == 0
    assert (
        capacity(
            {GroupState.FILTERED: 16, GroupState.OPEN: 15},
            max_concurrent_groups=99,
            max_staleness=0,
            groups_per_batch=16,
        )
        == 1
    )
