"""A program that does nothing does not raise the share of passing checks."""

from dataclasses import replace
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.grading.grade import counted, grade, with_case_files
from turnwise.envs.worlds.code.instances import draw
from turnwise.envs.worlds.code.task import Case, CodeTask
from turnwise.envs.worlds.code.task_folder import load
from turnwise.sandbox import Entry, Kind, Tree
from turnwise.tests.envs.worlds.code.small_task import TOML, small_task

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


LISTING = Case(("python3", "main.py"), b"7421 9963", files={"data/in.txt": b"7421", "other/in.txt": b"9963"})


def test_a_case_may_add_files_to_read_only_folders_and_through_links(local: str) -> None:
    folder, program = Entry(Kind.FOLDER, b"", 0o555), b"print(open('data/in.txt').read(), open('real/in.txt').read())"
    entries = {"data": folder, "data/x": Entry.file(b"1"), "real": folder, "other": Entry(Kind.LINK, b"real")}
    task = trusted(CodeTask("t", "x", Tree({**entries, "main.py": Entry.file(program)}), (LISTING,)))
    assert grade(task, task.workspace).success
    assert (
        grade(task, Tree({"data": Entry.file(b""), "main.py": Entry.file(program)})).tamper[0].startswith("cannot be")
    )


def test_files_of_a_case_replace_submitted_ones() -> None:
    files = Tree(
        {"d": Entry(Kind.LINK, b"e"), "e/x": Entry.file(b"1"), "l": Entry(Kind.LINK, b"e/x"), "o": link("/gone")}
    )
    given = {"d/x": b"2", "l": b"3", "new/y": b"4", "o/z": b"5"}
    assert dict(with_case_files(files, given)) == {"e/x": b"2", "l": b"3", "new/y": b"4", "o/z": b"5"}


def link(target: str) -> Entry:
    return Entry(Kind.LINK, target.encode())


def trusted(task: CodeTask) -> CodeTask:
    return replace(task, spec=task.spec.model_copy(update={"trusted": True}))
