"""Read the blocks of an ``edit``: old lines and new lines between three marks of one length.

    <<<<<<<
    old lines
    =======
    new lines
    >>>>>>>

The first mark of a block sets the length, at least ``MIN_MARK``: a line of marks of another length is content, such as
the underline of a heading. Marks of the same length inside a block must form whole blocks, such as a merge conflict,
which are content too. Every other text has more than one reading and is refused: longer marks make it readable.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MIN_MARK = 5
MARK = re.compile(rf"(<{{{MIN_MARK},}}|={{{MIN_MARK},}}|>{{{MIN_MARK},}})(.*)", re.DOTALL)
LONGER = "if the lines of the file hold such marks, use more of them: any number from 5 on, the same for all three"


class Ambiguous(ValueError):
    """The blocks have no single reading; the agent reads the message."""


@dataclass(slots=True)
class _Open:
    """A block whose end was not yet read."""

    length: int
    old: list[str] = field(default_factory=list)
    new: list[str] | None = None
    depth: int = 0
    """Number of open blocks inside, which are content."""


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield the old and the new lines of each block; text between blocks is ignored.

    Raises:
        Ambiguous: a mark is missing, or there are more of them than a block has.
    """
    block: _Open | None = None
    last, number = 0, 1
    for line in _lines(text):
        mark, length = _mark(line)
        if block is None:
            if mark == "<":
                block, last = _Open(length), length
            elif mark and length == last:
                raise Ambiguous(f"block {number - 1} of edit has more than one `{mark * length}`; {LONGER}")
            continue
        inside = length == block.length
        if inside and mark == "<":
            block.depth += 1
        elif inside and mark == ">" and block.depth:
            block.depth -= 1
        elif inside and mark == "=" and not block.depth:
            if block.new is not None:
                raise Ambiguous(f"block {number} of edit has more than one `{mark * length}`; {LONGER}")
            block.new = []
            continue
        elif inside and mark == ">" and block.new is not None:
            yield "".join(block.old), "".join(block.new)
            block, number = None, number + 1
            continue
        (block.old if block.new is None else block.new).append(line)
    if block is not None:
        marks = " and ".join(f"`{mark * block.length}`" for mark in ("=>" if block.new is None else ">"))
        raise Ambiguous(f"block {number} of edit has no {marks} that ends it; {LONGER}")


def _lines(text: str) -> list[str]:
    """Return the lines, each with its newline; a last line without one stays so."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _mark(line: str) -> tuple[str, int]:
    """Return the character and the length of the mark that a line is; empty for another line."""
    found = MARK.fullmatch(line.rstrip("\r\n"))
    if not found or (found[1][0] == "=" and found[2].strip(" \t")):
        return "", 0
    return found[1][0], len(found[1])
