"""Repair state that is carried from one group of lines to the next, or lost at the end."""

from ..task import CodeTask
from .base import Words, program_task, texts

TEXTS = texts("state")


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind = words.choice(tuple(TEXTS["wrong"]))

    def report(count: int) -> str:
        names = [words.second, *(words.choice(("north", "south", "east", "west")) for _ in range(count)), words.second]
        sections = [words.shuffled(amounts()) for _ in names]
        sections[words.integer(1, count)] = ()
        lines = [line for name, some in zip(names, sections, strict=True) for line in (f"{name}:", *map(str, some))]
        return "".join(f"{line}\n" for line in lines)

    def amounts() -> list[int]:
        return [-words.integer(1, 90), *(words.integer(1, 90) for _ in range(words.integer(1, 3)))]

    def reference(given: str) -> str:
        found = list[tuple[str, int]]()
        for word in given.split():
            if word.endswith(":"):
                found.append((word[:-1], 0))
            else:
                found[-1] = (found[-1][0], found[-1][1] + int(word))
        return "".join(f"{words.second} {name} {total}\n" for name, total in found)

    return program_task(
        words,
        TEXTS,
        name=f"state-{kind}",
        given=TEXTS["wrong"][kind],
        right=TEXTS["right"],
        wrong=TEXTS["wrong"],
        inputs=[report(count) for count in (2, 3, 5, 4)],
        reference=reference,
    )
