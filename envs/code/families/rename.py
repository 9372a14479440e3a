"""Rename a function in all modules that use it; the program must still work, and nothing else may change."""

from ....sandbox import Tree
from ..checks.calls import CallCase
from ..checks.file_checks import ProgramsEqual
from ..task import Case, CodeTask
from .words import Words

LIBRARY = '''
"""The sum of <first>."""


def <function>(values):
    """The sum of the even ones, and <bonus>."""
    return sum(value for value in values if value % 2 == 0) + <bonus>
'''
REPORT = '''
"""The report of <second>."""

from <first> import <function>


def report(values):
    return f"<second> {<function>(values)} of {len(values)}"
'''
MAIN = '''
"""Read numbers; print the report, then the sum of their first half, for <third>."""

import sys

import <first>
import report_<second>

numbers = [int(word) for word in sys.stdin.read().split()]
print(report_<second>.report(numbers))
print("<third>", <first>.<function>(numbers[: len(numbers) // 2]))
'''


def rename(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    first, second, third, bonus = words.first, words.second, words.third, words.integer(1, 9)
    verb, other = words.sample(("total", "amount", "balance", "count", "score"), 2)
    old, new = f"{verb}_{first}", f"{other}_{third}"

    def files(in_library: str, in_report: str, in_main: str) -> dict[str, bytes]:
        sources = {f"{first}.py": LIBRARY, f"report_{second}.py": REPORT, "main.py": MAIN}
        used = dict(zip(sources, (in_library, in_report, in_main), strict=True))
        return {path: words.text(source, bonus=bonus, function=used[path]).encode() for path, source in sources.items()}

    def total(values: list[int]) -> int:
        return sum(value for value in values if value % 2 == 0) + bonus

    def case(values: list[int]) -> Case:
        said = f"{second} {total(values)} of {len(values)}\n{third} {total(values[: len(values) // 2])}\n"
        return Case(("python3", "main.py"), said.encode(), " ".join(map(str, values)).encode())

    def call(values: list[int]) -> CallCase:
        return CallCase(f"{first}.{new}({values})", returns=str(total(values)))

    renamed = files(new, new, new)
    alias = {**renamed, f"{first}.py": renamed[f"{first}.py"] + f"\n\n{old} = {new}\n".encode()}
    lengths = (words.integer(6, 9), words.integer(2, 3), 1, 0)
    return CodeTask(
        name="rename",
        instruction=f"Rename the function {old} of {first}.py to {new}, everywhere. The old name must be gone from all "
        "files, and `python3 main.py` must go on working as it does. Change nothing else, and leave no other files: "
        "apart from comments and layout, the programs must be as they were, with the new name.",
        workspace=Tree.of(files(old, old, old)),
        cases=(
            *(case([words.integer(-9, 99) for _ in range(length)]) for length in lengths),
            call([words.integer(1, 99) for _ in range(words.integer(3, 5))] + [words.integer(50, 99) * 2]),
            call([words.integer(1, 40) * 2 + 1]),
        ),
        file_checks=(ProgramsEqual(tuple(sorted(renamed.items())), without=old),),
        solution=renamed,
        mutations={
            "the old name kept": alias,
            "only where it is made": files(new, old, old),
            "only where it is used": files(old, new, new),
            "not in main": files(new, new, old),
        },
    )
