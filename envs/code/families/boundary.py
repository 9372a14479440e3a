"""Repair a limit that is off by one: of a filter, a window, a number of pages, or a number of skipped items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..task import CodeTask
from .words import Words, program_task

PROGRAM = '''
"""Readings of <first>, one number a line, checked against those of <second>; <third> reads the answer."""

import sys

<upper> = <number>


def answer(values):
    return <formula>


print("<third>", answer([int(line) for line in sys.stdin if line.strip()]))
'''


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of off-by-one error: formulas over ``values`` and the constant N. The first wrong one is the bug."""

    asked: str
    right: str
    wrong: Mapping[str, str]
    compute: Callable[[list[int], int], int]


KINDS = {
    "limit": Kind(
        "how many readings are N or more",
        "sum(value >= N for value in values)",
        {
            "strictly more": "sum(value > N for value in values)",
            "exactly": "sum(value == N for value in values)",
            "one less counts too": "sum(value >= N - 1 for value in values)",
        },
        lambda values, n: sum(value >= n for value in values),
    ),
    "window": Kind(
        "the sum of the last N readings (of all of them, if there are fewer)",
        "sum(values[-N:])",
        {
            "without the newest": "sum(values[-N:-1])",
            "one more": "sum(values[-N - 1 :])",
            "the first": "sum(values[:N])",
        },
        lambda values, n: sum(values[-n:]),
    ),
    "pages": Kind(
        "how many pages of N readings it takes to print all of them",
        "(len(values) + N - 1) // N",
        {
            "always one more": "len(values) // N + 1",
            "rounded down": "len(values) // N",
            "readings": "len(values)",
        },
        lambda values, n: (len(values) + n - 1) // n,
    ),
    "skip": Kind(
        "the sum of the readings from the Nth on (the first reading is number 1)",
        "sum(values[N - 1 :])",
        {"from the one after": "sum(values[N:])", "from the one before": "sum(values[N - 2 :])", "all": "sum(values)"},
        lambda values, n: sum(values[n - 1 :]),
    ),
}


def boundary(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind = words.choice(tuple(KINDS))
    chosen, number, path = KINDS[kind], words.integer(3, 7), f"{words.first}.py"

    def source(formula: str) -> str:
        upper = words.second.upper()
        return words.text(PROGRAM, upper=upper, number=number, formula=formula.replace("N", upper))

    def readings(count: int) -> str:
        """Return at least 8 readings: some around the limit, zero and negative ones, then larger ones."""
        around = [number - 1, number, number, number + 1, number + words.integer(2, 9), 0, -number, -number - 1]
        values = *words.shuffled(around), *(words.integer(number + 2, 60) for _ in range(count - len(around)))
        return "".join(f"{value}\n" for value in values)

    def reference(given: str) -> str:
        return f"{words.third} {chosen.compute([int(line) for line in given.split()], number)}\n"

    wrong = {what: source(formula) for what, formula in chosen.wrong.items()}
    multiple = number * (3 if number == 3 else 2)
    # A page is full at a multiple of N, and the next one begins at one more.
    some = [readings(count) for count in (number + 8, multiple, multiple + number + 1, 14, words.integer(600, 900))]
    fewer = "".join(f"{words.integer(number, 60)}\n" for _ in range(number - 1))
    return program_task(
        name=f"boundary-{kind}",
        instruction=f"{path} reads whole numbers, some negative, from its standard input, one per line, and must print "
        f"the word {words.third} and {chosen.asked.replace('N', str(number))}. It is one off. Repair it.",
        path=path,
        given=next(iter(wrong.values())),
        right=source(chosen.right),
        wrong=wrong,
        inputs=[*some, fewer, ""],
        reference=reference,
    )
