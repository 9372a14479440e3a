"""Repair a limit that is off by one: of a filter, a window, a number of pages, or a number of skipped items."""

from collections.abc import Callable

from ..task import CodeTask
from .base import Words, program_task, texts

TEXTS = texts("boundary")
ANSWERS: dict[str, Callable[[list[int], int], int]] = {
    "limit": lambda values, n: sum(value >= n for value in values),
    "window": lambda values, n: sum(values[-n:]),
    "pages": lambda values, n: (len(values) + n - 1) // n,
    "skip": lambda values, n: sum(values[n - 1 :]),
}


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind = words.choice(tuple(ANSWERS))
    number, formulas = words.integer(3, 7), TEXTS["kinds"][kind]

    def readings(count: int) -> str:
        """Return at least 8 readings: some around the limit, zero and negative ones, then larger ones."""
        around = [number - 1, number, number, number + 1, number + words.integer(2, 9), 0, -number, -number - 1]
        values = *words.shuffled(around), *(words.integer(number + 2, 60) for _ in range(count - len(around)))
        return "".join(f"{value}\n" for value in values)

    def reference(given: str) -> str:
        return f"{words.third} {ANSWERS[kind]([int(line) for line in given.split()], number)}\n"

    multiple = number * (3 if number == 3 else 2)
    # A page is full at a multiple of N, and the next one begins at one more.
    some = [readings(count) for count in (number + 8, multiple, multiple + number + 1, 14, words.integer(600, 900))]
    fewer = "".join(f"{words.integer(number, 60)}\n" for _ in range(number - 1))
    return program_task(
        words,
        TEXTS,
        name=f"boundary-{kind}",
        given=next(iter(formulas["wrong"].values())),
        right=formulas["right"],
        wrong=formulas["wrong"],
        inputs=[*some, fewer, ""],
        reference=reference,
        quantity=formulas["quantity"],
        number=number,
    )
