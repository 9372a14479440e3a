"""Replace whole lines of a file, each given text exactly once, and keep the line ends of the file."""

from codecs import BOM_UTF8

from .numbered_lines import NEWLINE, line_start

CRLF = b"\r\n"


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
