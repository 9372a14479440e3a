"""Repair a reader of ``key = value`` lines which gets one thing of the format wrong."""

from ..task import CodeTask
from .base import Words, program_task, texts

TEXTS = texts("parsing")
RIGHT = TEXTS["right"]
WRONG = {what: RIGHT.replace(*slip) for what, slip in TEXTS["slips"].items()}


def draw(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind = words.choice(tuple(WRONG))

    def settings(*, edges: bool) -> str:
        """Return lines that show every rule, in random order, and with ``edges`` each rule at its limits."""
        number = words.integer(10, 99)
        lines = words.shuffled([*TEXTS["lines"], *TEXTS["limits"]] if edges else TEXTS["lines"])
        return "".join(f"{words.text(line, number=number)}\n" for line in lines)

    def reference(given: str) -> str:
        out = ""
        for line in map(str.strip, given.splitlines()):
            if line and not line.startswith("#"):
                key, _, value = line.partition("=")
                value = value.strip()
                value = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
                out += f"{words.third} {key.strip().lower()} is {value!r}\n"
        return out

    return program_task(
        words,
        TEXTS,
        name=f"parsing-{kind}",
        given=WRONG[kind],
        right=RIGHT,
        wrong=WRONG,
        inputs=[settings(edges=False), settings(edges=True), settings(edges=True)],
        reference=reference,
    )
