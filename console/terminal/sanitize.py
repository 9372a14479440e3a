"""Sanitization of text from an agent, an environment or a page before it is printed on a terminal.

* Printed text must not move the cursor, change colors, set the title, or hide or reorder other text. ``sanitize``
  removes escape sequences, then all control, format and lone surrogate characters except newline and tab.
* A newline in such text starts a line that could imitate turnwise's own lines, and so does a line that the terminal
  wraps. Print such text with ``output.print_text`` or ``one_line``.
* Rich markup in such text is never interpreted: ``cell`` wraps the text in ``rich.text.Text``, which parses no markup.
"""

import re
import unicodedata

from rich.text import Text

_ESCAPE_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colors, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x1b\\|\x07|\x9c|$)"  # OSC and the other strings: titles, links
    r"|\x1b[ -/]*[0-~]?",  # short sequences
    re.DOTALL,
)
_KEPT_CHARACTERS = {"\n", "\t"}
_REMOVED_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def sanitize(text: str) -> str:
    """Return the text without escape sequences, control, format and surrogate characters; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPE_SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return "".join(
        char for char in text if char in _KEPT_CHARACTERS or unicodedata.category(char) not in _REMOVED_CATEGORIES
    )


def indented(text: str, gutter: str = "  ") -> str:
    """Return the sanitized text with ``gutter`` before each line except the first."""
    return sanitize(text).replace("\n", "\n" + gutter)


def wrapped(text: str, gutter: str, width: int, start: int = 0) -> str:
    """Return sanitized text with each line cut to ``width`` columns; ``gutter`` begins each piece after a line's first.

    Args:
        gutter: replaced by its last two characters if it takes more than half of the width.
        start: columns of the first line that are already printed.
    """
    gutter = gutter if 2 * len(gutter) <= width else gutter[-2:]
    lines: list[str] = []
    for line in text.split("\n"):
        used, piece = 0 if lines else start, ""
        for char in line.expandtabs():
            columns = _columns(char)
            if used + columns > width and used > len(gutter):
                lines.append(piece)
                used, piece = len(gutter), gutter
            used, piece = used + columns, piece + char
        lines.append(piece)
    return "\n".join(lines)


def _columns(char: str) -> int:
    """Return the largest number of columns that a terminal uses for a character."""
    return 1 if char.isascii() or unicodedata.east_asian_width(char) not in "WFA" else 2


def one_line(text: str, width: int | None = 80) -> str:
    """Return the sanitized text on one line of at most ``width`` characters."""
    line = " ".join(sanitize(text).split())
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def cell(value: object, width: int | None = None) -> Text:
    """Return a value as one sanitized line for a table, without markup."""
    shown = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return Text(one_line(shown, width))
