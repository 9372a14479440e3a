"""Repair a command line that fails: a path, an option, a name with a space, a variable."""

from .....sandbox import Tree
from ..task import Case, CodeTask
from .base import Words, texts

TEXTS = texts("command")


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind = words.choice(tuple(TEXTS["slips"]))
    data = f"data/{words.first} {words.second}.txt"

    def source(old: str = "", new: str = "") -> bytes:
        return words.text(TEXTS["right"].replace(old, new) if old else TEXTS["right"]).encode()

    def table(*more: int) -> tuple[bytes, int]:
        return listed([words.integer(50, 99), words.integer(5, 9), *more])

    def listed(some: list[int]) -> tuple[bytes, int]:
        amounts = words.shuffled(some)
        return "".join(f"day{day} {amount}\n" for day, amount in enumerate(amounts, 1)).encode(), max(amounts)

    # Amounts of as many digits as the largest, and a largest of two, three and four digits.
    shown, largest = table(words.integer(100, 499), words.integer(100, 499))
    hidden = [
        table(words.integer(100, 499), words.integer(100, 499)),
        table(words.integer(1000, 4999), words.integer(1000, 4999), words.integer(100, 499)),
        table(words.integer(10, 49)),
        table(*(words.integer(100, 999) for _ in range(words.integer(12, 20))), -words.integer(1000, 4999)),
        listed([-words.integer(5, 9), -words.integer(20, 99), -words.integer(100, 499)]),
        listed([words.integer(11, 99)]),
    ]
    right = source()
    mutations = {what: {"run.sh": source(*slip)} for what, slip in TEXTS["wrong"].items()}
    mutations["the answer by heart"] = {"run.sh": f'#!/bin/sh\necho "{words.third} {largest}"\n'.encode()}
    return CodeTask(
        name=f"command-{kind.replace(' ', '-')}",
        instruction=words.text(TEXTS["instruction"]),
        workspace=Tree.of(
            {
                "run.sh": source(*TEXTS["slips"][kind]),
                data: shown,
                f"notes/{words.third}.md": f"{words.first} comes before {words.second}.\n".encode(),
            }
        ),
        cases=(
            Case(("sh", "run.sh"), f"{words.third} {largest}\n".encode(), files={data: shown}),
            *(
                Case(("sh", "run.sh"), f"{words.third} {most}\n".encode(), files={data: content})
                for content, most in hidden
            ),
        ),
        solution={"run.sh": right},
        mutations=mutations,
    )
