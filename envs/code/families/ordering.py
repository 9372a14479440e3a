"""Repair the order in which records come out: numbers sorted as text, ties, directions."""

from ..task import CodeTask
from .words import Words, program_task

PROGRAM = '''
"""The <count> best of <first>: lines of a name and a score, ordered for <second>, as <third> wants them."""

import sys

records = [line.split() for line in sys.stdin if line.strip()]
records.sort(<order>)
for name, score in records[:<count>]:
    print("<second>", name, score)
'''
RIGHT = "key=lambda record: (-int(record[1]), record[0])"
WRONG = {
    "numbers as text": "key=lambda record: (record[1], record[0]), reverse=True",
    "ties as they came": "key=lambda record: -int(record[1])",
    "ties backwards": "key=lambda record: (int(record[1]), record[0]), reverse=True",
    "smallest first": "key=lambda record: (int(record[1]), record[0])",
    "by name": "key=lambda record: record[0]",
}


def ordering(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind, path, count = words.choice(tuple(WRONG)), f"{words.first}.py", words.integer(4, 6)

    def source(order: str) -> str:
        return words.text(PROGRAM, count=count, order=order)

    def scores(number: int) -> str:
        # Another highest score in each input, so that no two inputs have the same answer.
        high, low = words.integer(100 + 30 * number, 120 + 30 * number), words.integer(20, 90)
        tied = [("zeta", high), ("betas", high), ("mu", high), ("beta", high)]
        rest = [(words.third, high + 7), ("alpha", low), ("eta", low + 3), ("xi", 9), ("pi", 8)]
        # The tied ones come in an order that is neither right nor its reverse.
        lines = [*words.shuffled(rest), *tied]
        return "".join(f"{name} {score}\n" for name, score in lines)

    def few() -> str:
        """Return fewer records than are asked for, some with negative numbers."""
        some = [("nu", -words.integer(100, 999)), ("xi", words.integer(10, 99)), (words.first, -words.integer(1, 9))]
        return "".join(f"{name} {score}\n" for name, score in words.shuffled(some))

    def reference(given: str) -> str:
        records = sorted((-int(score), name) for name, score in map(str.split, given.splitlines()))
        return "".join(f"{words.second} {name} {-score}\n" for score, name in records[:count])

    return program_task(
        name=f"ordering-{kind.replace(' ', '-')}",
        instruction=f"{path} reads lines of a name and a whole number from its standard input. It must print the "
        f"{count} with the largest numbers, or all of them if there are fewer, the largest first, each after the word "
        f"{words.second}; where numbers are equal, in the order of the alphabet. The order is wrong. Repair it.",
        path=path,
        given=source(WRONG[kind]),
        right=source(RIGHT),
        wrong={what: source(order) for what, order in WRONG.items()},
        inputs=[*(scores(number) for number in words.shuffled(range(3))), few()],
        reference=reference,
    )
