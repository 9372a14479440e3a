"""A program that does nothing does not raise the share of passing checks."""

from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.envs.code.families import draw
from turnwise.envs.code.grading.grade import counted, grade
from turnwise.envs.code.task import CodeTask
from turnwise.envs.code.task_folder import load
from turnwise.tests.envs.code.small_task import TOML, small_task

CASES = """
[[case]]
call = "calc.add(20, 31)"
returns = "51"

[[case]]
call = "calc.add(410, 31)"
returns = "441"

[[case]]
call = "calc.add(None, 1)"
raises = "ValueError"

[[case]]
call = "calc.is_big(5)"
returns = "True"

[[case]]
call = "calc.is_big(1)"
returns = "False"
"""
CONSTANT = "def add(*numbers):\n    raise ValueError\n\n\ndef is_big(number):\n    return True\n"
RIGHT = """
def add(one, two):
    if one is None:
        raise ValueError
    return one + two


def is_big(number):
    return number > 3
"""


@pytest.mark.parametrize(
    ("answers", "guesses", "count"),
    [
        ([True, True], [True, False], 3),
        ([True, False], [True, True], 1),
        ([False], [True], 0),
        ([], [True, False], 0),
        ([], [True, True], 2),
        ([True], [], 1),
        ([], [], 0),
    ],
)
def test_guessable_checks_count_after_the_others(answers: list[bool], guesses: list[bool], count: int) -> None:
    kinds = [False] * len(answers) + [True] * len(guesses)
    assert counted([*answers, *guesses], kinds) == count
    assert counted([*guesses, *answers], kinds[::-1]) == count


def test_constant_results_earn_no_share(local: str, tmp_path: Path) -> None:
    """With ``step_reward``, the constants earned 0.5 and a program without names 0.25 before."""
    own = trusted(load(small_task(tmp_path / "add", toml=TOML + CASES, hidden=""))[0])
    assert grade(own, {"calc.py": CONSTANT.encode()}).passed == 0
    assert grade(own, {"calc.py": RIGHT.encode()}).success
    rename = trusted(draw(0, "train", "rename"))
    assert grade(rename, dict.fromkeys(rename.workspace, b"x = 1\n")).passed == 0


def trusted(task: CodeTask) -> CodeTask:
    return replace(task, spec=task.spec.model_copy(update={"trusted": True}))
