"""Implement a small container with a given protocol; the wrong solutions follow neighboring protocols."""

from collections.abc import Callable

from ..task import CodeTask
from .base import NOUNS, Words, program_task, texts

TEXTS = texts("container")


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    behaviors, ends = TEXTS["behavior"], TEXTS["ends"]
    kind, end, size = words.choice(tuple(behaviors)), words.choice(tuple(ends)), words.integer(3, 5)

    def made(how: str, which: str) -> str:
        right: str = TEXTS["right"]
        return right.replace("<add>", TEXTS["add"][how]).replace("<end>", which)

    def commands() -> str:
        # Taken from while empty, filled beyond its limit, a word twice while there is room, and emptied beyond its end.
        some = words.sample(NOUNS, size + 3)
        lines = ["take"] + [f"add {word}" for word in (some[0], some[1], some[1], *some[2:])] + ["take"] * 2
        lines += [f"add {words.choice(some)}" for _ in range(2)] + ["take"] * (size + 1)
        lines += [f"add {word}" for word in (some[1], some[2], some[1])] + ["take"] * 4
        return "".join(f"{line}\n" for line in lines)

    other = next(each for each in ends if each != end)
    wrong = {how: made(how, end) for how in TEXTS["add"] if how != kind}
    return program_task(
        words,
        TEXTS,
        name=f"container-{kind}",
        given=TEXTS["stub"],
        right=made(kind, end),
        wrong={**wrong, "from the other end": made(kind, other)},
        inputs=[commands() for _ in range(3)],
        reference=_reference(kind, int(end), size, words.third),
        size=size,
        behavior=f"{behaviors[kind]} `take` removes and returns {ends[end]}, or returns `nothing` if it is empty.",
    )


def _reference(kind: str, end: int, size: int, third: str) -> Callable[[str], str]:
    def answer(given: str) -> str:
        kept, out = list[str](), ""
        for command, *rest in map(str.split, given.splitlines()):
            if command == "take":
                out += f"{third} {kept.pop(end) if kept else 'nothing'}\n"
            elif kind == "a word twice counts once" and rest[0] in kept:
                continue
            elif len(kept) < size:
                kept.append(rest[0])
            elif kind != "the new one is refused":
                kept = [*kept[1:], rest[0]]
        return out

    return answer
