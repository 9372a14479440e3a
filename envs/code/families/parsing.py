"""Repair a reader of ``key = value`` lines which gets one thing of the format wrong."""

from ..task import CodeTask
from .words import Words, program_task

PROGRAM = '''
"""Reads the settings of <first> as <second> writes them, and prints them for <third>."""

import sys


def parse(line):
<body>


for line in sys.stdin:
    pair = parse(line.rstrip("\\n"))
    if pair is not None:
        print("<third>", pair[0], "is", repr(pair[1]))
'''
RIGHT = """
    line = line.strip()
    if not line or line.startswith("#"):
        return None
    key, _, value = line.partition("=")
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return key.strip().lower(), value
"""
SLIPS = {
    "cut at a later equals sign": ('key, _, value = line.partition("=")', 'key, value = line.split("=")[:2]'),
    "spaces kept": ("value = value.strip()", "value = value.rstrip()"),
    "comments read": ('if not line or line.startswith("#"):', "if not line:"),
    "empty lines read": ('if not line or line.startswith("#"):', 'if line.startswith("#"):'),
    "quotes kept": ("value = value[1:-1]", "pass"),
    "letters kept as they are": ("key.strip().lower()", "key.strip()"),
    "comments anywhere": ("line = line.strip()", 'line = line.split("#")[0].strip()'),
}


def parsing(words: Words) -> CodeTask:
    """Return a task with the names and random choices of ``words``."""
    kind, path = words.choice(tuple(SLIPS)), f"{words.first}.py"

    def source(body: str) -> str:
        return words.text(PROGRAM, body=body.strip("\n"))

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
        name=f"parsing-{kind.replace(' ', '-')}",
        instruction=f"{path} reads settings from its standard input, one `key = value` per line. It prints keys in "
        "lowercase. Spaces around a line, a key and a value are ignored. The value is everything after the first "
        "equals sign, and it may be empty. One pair of double quotes around a value is removed; spaces between the two "
        "stay, and so does every other quote. Empty lines and lines that begin with # are skipped; a # anywhere else "
        "stays. The program violates one of these rules. Repair it.",
        path=path,
        given=source(RIGHT.replace(*SLIPS[kind])),
        right=source(RIGHT),
        wrong={what: source(RIGHT.replace(*slip)) for what, slip in SLIPS.items()},
        inputs=[settings(edges=False), settings(edges=True), settings(edges=True)],
        reference=reference,
    )
