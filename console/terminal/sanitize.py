"""Text that an agent, an environment or a page wrote, made fit for a terminal.

What is shown must not move the cursor, change colors, set the title, hide what comes before it or reorder what comes
after. So escape sequences go whole, then every control, format and lone surrogate character; only newline and tab stay.
A newline in such text starts a line that could pose as one of turnwise's: print it with ``indented`` or ``one_line``.
Rich markup in such text is never interpreted: it is wrapped in ``rich.text.Text``, which does not parse any.
"""

import re
import unicodedata

from rich.text import Text

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colors, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x1b\\|\x07|\x9c|$)"  # OSC and the other strings: titles, links
    r"|\x1b[ -/]*[0-~]?",  # the short ones
    re.DOTALL,
)
_KEPT = {"\n", "\t"}
_DROPPED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def clean(text: str) -> str:
    """The text without escape sequences, control, format and surrogate characters; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "".join(char for char in text if char in _KEPT or unicodedata.category(char) not in _DROPPED)


def indented(text: str, gutter: str = "  ") -> str:
    """The cleaned text with ``gutter`` before each line except the first."""
    return clean(text).replace("\n", "\n" + gutter)


def one_line(text: str, width: int | None = 80) -> str:
    """The cleaned text on one line of at most ``width`` characters."""
    line = " ".join(clean(text).split())
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def cell(value: object, width: int | None = None) -> Text:
    """One line of any value for a table: cleaned, and never read as markup."""
    shown = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return Text(one_line(shown, width))
