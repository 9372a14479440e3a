"""The difference between two results, in words."""

from dataclasses import replace

import pytest
from turnwise.envs.authoring.subject import difference
from turnwise.envs.runner.step_result import StepResult

ONE = StepResult("a\nb", (), "1", 0.0, False, False, True, "key", None, {}, {}, 1.0)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (replace(ONE, text="a\nc", hash="2", reward=1.0), "line 2 of the observation was 'b', then 'c'"),
        (replace(ONE, text="a", hash="2"), "line 2 of the observation was 'b', then ''"),
        (replace(ONE, text="time 12:00", reward=1.0), "`reward` was 0.0, then 1.0"),
        (replace(ONE, state_key="x" * 200), f"`state_key` was 'key', then '{'x' * 99}…"),
        (replace(ONE, hash="2"), "the images differ"),
    ],
    ids=["line", "shorter", "normalized away", "long", "image"],
)
def test_the_first_difference_is_named(other: StepResult, text: str) -> None:
    assert difference(ONE, other) == text
