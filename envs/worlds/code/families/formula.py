"""Implement a function that its docstring describes step by step, with one example."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..task import CodeTask
from .base import NOUNS, Words, program_task, texts

TEXTS = texts("formula")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done to a list of words."""

    clause: str
    code: str
    do: Callable[[list[str], int], list[str]]
    size: int


DO: tuple[Callable[[list[str], int], list[str]], ...] = (
    lambda words, size: [word for word in words if len(word) >= size + 3],
    lambda words, size: [word[:size] for word in words],
    lambda words, _: [word[::-1] for word in words],
    lambda words, _: sorted(words),
    lambda words, _: list(dict.fromkeys(words)),
    lambda words, _: words[::-1],
    lambda words, _: [word.upper() for word in words],
)
"""What each step of the file does."""


def _steps(words: Words) -> list[Step]:
    size = words.integer(2, 3)
    filled = [[words.text(text, size=size, least=size + 3) for text in step] for step in TEXTS["steps"]]
    return [Step(clause, code, do, size) for (clause, code), do in zip(filled, DO, strict=True)]


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    mark = words.choice(("-", "_", ".", "/", "+"))
    steps, inputs = _visible(words)

    def body(chosen: Sequence[Step], joint: str = mark) -> str:
        return "".join(f"    {step.code}\n" for step in chosen) + f"    return {joint!r}.join(words)"

    wrong = {f"without: {step.clause}": body([other for other in steps if other is not step]) for step in steps}
    return program_task(
        words,
        TEXTS,
        name="formula",
        given=TEXTS["stub"],
        right=body(steps),
        wrong={**wrong, "joined otherwise": body(steps, " ")},
        inputs=inputs,
        reference=lambda given: _labels(given, steps, mark),
        doc=f"First {steps[0].clause}; then {steps[1].clause}; then {steps[2].clause}; join them with {mark}.",
    )


def _visible(words: Words) -> tuple[Sequence[Step], list[str]]:
    """Return three steps and three inputs: without any one step a hidden output differs.

    Every label has two words, except those of an empty line and of a line of one word in the last input.
    """

    def lines() -> str:
        some = [words.first, words.second, *words.sample(NOUNS, 4)]
        return "".join(" ".join(words.shuffled([*some, words.choice(some)])) + "\n" for _ in range(4))

    while True:
        steps, inputs = words.sample(_steps(words), 3), [lines() for _ in range(3)]
        right = [_labels(each, steps, " ") for each in inputs]
        without = [[other for other in steps if other is not step] for step in steps]
        shown = all([_labels(each, left, " ") for each in inputs[1:]] != right[1:] for left in without)
        if shown and all(" " in line for each in right for line in each.splitlines()):
            first, rest = inputs[-1].split("\n", 1)
            return steps, [*inputs[:-1], f"{first}\n\n{words.choice(NOUNS)}\n{rest}"]


def _labels(given: str, steps: Sequence[Step], mark: str) -> str:
    out = ""
    for line in given.splitlines():
        found = line.split()
        for step in steps:
            found = step.do(found, step.size)
        out += mark.join(found) + "\n"
    return out
