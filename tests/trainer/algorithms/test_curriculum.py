"""Horizon schedules bound the length of episodes by update."""

import pytest
from pydantic import ValidationError
from turnwise.records import Task
from turnwise.trainer.algorithms.curriculum.horizons.additive import AdditiveHorizon
from turnwise.trainer.algorithms.curriculum.horizons.base import HorizonSchedule
from turnwise.trainer.algorithms.curriculum.horizons.multiplicative import MultiplicativeHorizon
from turnwise.trainer.algorithms.curriculum.horizons.staged import StagedHorizon

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
