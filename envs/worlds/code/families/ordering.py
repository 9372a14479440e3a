"""Repair the order in which records come out: numbers sorted as text, ties, directions."""

from ..task import CodeTask
from .base import Words, program_task, texts

TEXTS = texts("ordering")


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind, count = words.choice(tuple(TEXTS["wrong"])), words.integer(4, 6)

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
        words,
        TEXTS,
        name=f"ordering-{kind}",
        given=TEXTS["wrong"][kind],
        right=TEXTS["right"],
        wrong=TEXTS["wrong"],
        inputs=[*(scores(number) for number in words.shuffled(range(3))), few()],
        reference=reference,
        count=count,
    )
