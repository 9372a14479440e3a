"""Number the lines of a file of any size, in linear time and in memory bounded by the length of the text."""

from collections.abc import Iterable

CHUNK_BYTES = 1 << 16
MARK_CHARS = 80
"""Room for the line that replaces the omitted ones."""
NEWLINE = b"\n"


def line_count(content: bytes) -> int:
    """Return the number of lines; a last line without a newline counts."""
    return content.count(NEWLINE) + (bool(content) and not content.endswith(NEWLINE))


def numbered(content: bytes, first: int, last: int, max_chars: int) -> str:
    """Return lines ``first`` to ``last``, counted from 1, each after its number; empty if there are none.

    If they exceed ``max_chars``, the middle ones are omitted. A line longer than half of ``max_chars`` is cut.
    """
    part = content[line_start(content, first) : line_start(content, last + 1)].removesuffix(NEWLINE)
    if first > last:
        return ""
    if len(part) <= max_chars:
        rendered = "\n".join(_rendered(number, line) for number, line in enumerate(part.split(NEWLINE), first))
        if len(rendered) <= max_chars:
            return rendered
    half = max(1, (max_chars - MARK_CHARS) // 2)
    head = _fitting(enumerate(part[:half].split(NEWLINE), first), half)
    tail = _fitting(zip(range(last, 0, -1), reversed(part[-half:].split(NEWLINE)), strict=False), half)[::-1]
    after, before = first + len(head), last - len(tail)
    mark = f"[... lines {after} to {before} left out ...]" if after <= before else "[... a part of a line left out ...]"
    return "\n".join([*head, mark, *tail])


def _fitting(lines: Iterable[tuple[int, bytes]], max_chars: int) -> list[str]:
    """Return the first lines that fit into ``max_chars``; if none does, the first one, cut."""
    taken, left = list[str](), max_chars
    for number, line in lines:
        rendered = _rendered(number, line)
        left -= len(rendered) + 1
        if left < 0:
            return taken or [rendered[:max_chars]]
        taken.append(rendered)
    return taken


def _rendered(number: int, line: bytes) -> str:
    text = line.removesuffix(b"\r").decode(errors="replace")
    return f"{number:5} {text}"


def line_start(content: bytes, number: int) -> int:
    """Return the offset of line ``number``; the length of the content if there are fewer lines."""
    missing, offset = number - 1, 0
    while missing:
        chunk = content[offset : offset + CHUNK_BYTES]
        if not chunk:
            break
        found = chunk.count(NEWLINE)
        if found >= missing:
            for _ in range(missing):
                offset = content.index(NEWLINE, offset) + 1
            break
        missing -= found
        offset += len(chunk)
    return offset
