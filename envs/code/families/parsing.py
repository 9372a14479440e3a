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
        key, other, number = words.second, words.third, words.integer(10, 99)
        lines = [
            f"{key}_path = a={number}&b=2",
            f"   {other} =   {number} items  ",
            f"# {key} = {number}",
            "",
            f'{key}_title = "the {other}"',
            f"{key.upper()}_Size={number}",
            f"{key}_colour = #{number}{number}",
            f'{key}_inch = "{other}',
            f'{key}_quoted = ""{other}""',
        ]
        limits = [
            f"  # {other} = {number}",
            "#",
            "   ",
            f"{key}_none =",
            f"{key}_nothing= ",
            f'{key}_empty = ""',
            f'{key}_lone = "',
            f'{key}_three = """',
            f'{key}_inches = {number} {other}"',
            f'{key}_spaced =  " {other} {number}  "  ',
            f'{key}_inside = {other} "{number}" {key}',
            f"{key}_single = '{other}'",
            f"{key}_marks = !{other}!",
            f'{key}_mark = !{other}"',
            f'"{key}_Key" = {number}',
            f"{key}_Name = {other.title()} {number}",
            f"{other} {key} = {number}",
            f"{key}#{number} = {number} # {other}",
            f"{key}_equals ==",
            f"{key}_equal = = {number} =",
        ]
        return "".join(f"{line}\n" for line in words.shuffled([*lines, *limits] if edges else lines))

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
