"""Find a line of a shell script that compares what the code under test prints."""

import re
from collections.abc import Collection
from pathlib import PurePosixPath

SHELL = re.compile(rb"#![^\n]*\b(?:ba|da)?sh\b")
COMMENT = re.compile(r"(?:^|\s)#.*")
BRACKETS = re.compile(r"\[\s(.*?)\s(?:[=!]?=|-eq|-ne|-lt|-le|-gt|-ge)\s(.*?)\s\]")
"""A test in brackets; the groups are the two sides."""
COMMAND = r"(?:^|[;&|({!]|\b(?:if|while|until|then|do)\s)\s*(?:diff|cmp)\s[^;&]*"
COMPARES = re.compile(rf"^\s*(?:if|while|until)\b.*{COMMAND}|.*{COMMAND}(?:&&|\|\|)")
"""A command that compares files or streams, and that decides."""


def is_shell(path: str, content: bytes) -> bool:
    """Return whether a file is a script of a shell."""
    return path.endswith((".sh", ".bash")) or bool(SHELL.match(content))


def decides(script: str, tested: Collection[str]) -> int:
    """Return the first line that compares output of a tested file that it names; 0 if none does."""
    name = rf"\b(?:{'|'.join(re.escape(PurePosixPath(path).stem) for path in tested)})\b"
    output = re.compile(rf"(?:\$\(|`).*{name}")
    for number, line in enumerate(script.splitlines(), 1):
        text = COMMENT.sub("", line)
        sides = [side for each in BRACKETS.finditer(text) for side in each.groups()]
        compared = COMPARES.match(text)
        if any(map(output.search, sides)) or (compared and re.search(name, compared.group())):
            return number
    return 0
