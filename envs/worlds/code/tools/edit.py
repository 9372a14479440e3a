"""Read the blocks of an ``edit``, and replace whole lines of a file by them: each block is three marks of one length.

    <<<<<<<
    old lines, which occur exactly once
    =======
    new lines
    >>>>>>>

The first mark of a block sets the length, at least ``MIN_MARK``: a line of marks of another length is content, such as
the underline of a heading. Marks of the same length inside a block must form whole blocks, such as a merge conflict,
which are content too. Every other text has more than one reading and is refused: longer marks make it readable.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field

from .numbered_lines import NEWLINE, line_start

CRLF = b"\r\n"
MIN_MARK = 5
MARK = re.compile(rf"(<{{{MIN_MARK},}}|={{{MIN_MARK},}}|>{{{MIN_MARK},}})(.*)", re.DOTALL)
LONGER = "if the lines of the file hold such marks, use more of them: any number from 5 on, the same for all three"
LINE = re.compile(r"[^\n]*\n|[^\n]+")
"""A line with its newline; a last line without one stays so."""


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
    for line in LINE.findall(text):
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


def _mark(line: str) -> tuple[str, int]:
    """Return the character and the length of the mark that a line is; empty for another line."""
    found = MARK.fullmatch(line.rstrip("\r\n"))
    if not found or (found[1][0] == "=" and found[2].strip(" \t")):
        return "", 0
    return found[1][0], len(found[1])


class NotApplied(ValueError):
    """A block cannot be applied; the agent reads the message."""


def edited(content: bytes, blocks: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Return a file after its blocks of old and new lines were applied in order.

    Old lines match whole lines, those that end with CRLF too, unless they contain a CR themselves. New lines then get
    the line end of the lines that they replace, and unchanged lines keep theirs. A file without a final newline keeps
    none, and a CR at its very end. A byte order mark is no part of the first line, and stays.

    Raises:
        NotApplied: old lines do not occur exactly once.
    """
    if content.startswith(BOM_UTF8):
        return BOM_UTF8 + edited(
            content.removeprefix(BOM_UTF8), tuple((_plain(old), _plain(new)) for old, new in blocks)
        )
    ended, cr = content.endswith(NEWLINE), content.endswith(b"\r")
    content = content if ended else content + NEWLINE
    for number, (old, new) in enumerate(blocks, 1):
        content = _replaced(content, _ended(old), _ended(new), f"the old text of block {number}")
    if ended:
        return content
    return content.removesuffix(CRLF if content.endswith(CRLF) and not cr else NEWLINE)


def _replaced(content: bytes, old: bytes, new: bytes, what: str) -> bytes:
    exact = CRLF in old
    searched = NEWLINE + (content if exact else content.replace(CRLF, NEWLINE))
    at = searched.find(NEWLINE + old)
    if at < 0:
        raise NotApplied(f"{what} does not occur as whole lines{_hint(searched, old)}")
    if searched.find(NEWLINE + old, at + 1) >= 0:
        raise NotApplied(f"{what} occurs more than once, and must occur once; add the lines around it")
    first, count = searched.count(NEWLINE, 0, at + 1), old.count(NEWLINE)
    start, end = line_start(content, first), line_start(content, first + count)
    return content[:start] + (new if exact else _with_ends(content[start:end], old, new)) + content[end:]


def _with_ends(replaced: bytes, old: bytes, new: bytes) -> bytes:
    """Return the new lines with the line ends of the replaced ones."""
    before, after, fresh = _lines(replaced), _lines(old), _lines(new)
    head = 0
    while head < min(len(after), len(fresh)) and after[head] == fresh[head]:
        head += 1
    tail = 0
    while tail < min(len(after), len(fresh)) - head and after[-1 - tail] == fresh[-1 - tail]:
        tail += 1
    end = CRLF if before[min(head, len(before) - 1)].endswith(CRLF) else NEWLINE
    middle = [line.removesuffix(NEWLINE).removesuffix(b"\r") + end for line in fresh[head : len(fresh) - tail]]
    return b"".join([*before[:head], *middle, *before[len(before) - tail :]])


def _hint(searched: bytes, old: bytes) -> str:
    """Return the likely reason why old lines do not occur; empty if none is known."""
    if old.removesuffix(NEWLINE) in searched:
        return ": it is a part of a line; give the whole line"
    if CRLF in old and NEWLINE + old.replace(CRLF, NEWLINE) in searched:
        return ": its lines end with LF there, not with CRLF"
    if "\ufffd".encode() in old:
        return ": the file has bytes that are not UTF-8 there; use bash"
    return ""


def _plain(text: bytes) -> bytes:
    return text.removeprefix(BOM_UTF8)


def _lines(text: bytes) -> list[bytes]:
    return [line + NEWLINE for line in text.split(NEWLINE)[:-1]]


def _ended(text: bytes) -> bytes:
    return text if text.endswith(NEWLINE) or not text else text + NEWLINE
