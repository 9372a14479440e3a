"""Draws are a pure function of their key."""

import pytest
from turnwise.envs.draws import NoInstance, SeededDraws


def test_draws_are_the_same_for_a_key() -> None:
    one, other = SeededDraws("key"), SeededDraws("key")
    assert one.sample(range(50), 10) == other.sample(range(50), 10)
    assert {SeededDraws(str(seed)).integer(1, 6) for seed in range(100)} == {1, 2, 3, 4, 5, 6}
    with pytest.raises(NoInstance):
        one.choice(())
