"""Tables on a terminal, in a file and in a pipe."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from .output import console, echo, print_fields
from .sanitize import cell

COLUMN_GAP = "  "
"""Space between two columns."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str, required: int = 0) -> None:
    """Print a table of sanitized cells, or the line ``empty`` if there are no rows.

    A column without a value in any row is left out. In a file or a pipe, each row is one line. On a terminal, cells
    wrap between words; where words would not fit, each row is printed as lines of a name and a value.

    Args:
        required: columns that a narrow terminal shows; it leaves out later ones and prints their names. 0: all.
    """
    table = [[cell(value).plain for value in row] for row in rows]
    kept = [place for place in range(len(columns)) if any(row[place] for row in table)]
    out = console()
    if not kept:
        out.print(empty)
        return
    names, table = [columns[place] for place in kept], [[row[place] for place in kept] for row in table]
    if not out.is_terminal:
        _print_rows([names, *table])
        return
    words = [_widest_word(column) for column in zip(names, *table, strict=True)]
    count = len(names)
    least = sum(place < required for place in kept) or count
    while count > least and _total(words[:count]) > out.width:
        count -= 1
    if _total(words[:count]) <= out.width:
        _print_wrapped([one[:count] for one in (names, *table)], words[:count], out)
        if count < len(names):
            out.print(f"not shown, for the width: {', '.join(names[count:])}", style="dim", soft_wrap=True)
        return
    for number, row in enumerate(table):
        if number:
            out.print()
        print_fields(dict(zip(names, row, strict=True)))


def _total(widths: Sequence[int]) -> int:
    """Return the width of a table with columns of these widths."""
    return sum(widths) + len(COLUMN_GAP) * (len(widths) - 1)


def _widest_word(column: Sequence[str]) -> int:
    return max(cell_len(word) for text in column for word in text.split() or [""])


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*table, strict=True)]


def _line(texts: Iterable[str], widths: Sequence[int]) -> str:
    padded = (text + " " * (width - cell_len(text)) for text, width in zip(texts, widths, strict=True))
    return COLUMN_GAP.join(padded).rstrip()


def _print_rows(table: Sequence[Sequence[str]]) -> None:
    """Print each row as one line, aligned, without spaces at its end."""
    widths = _widths(table)
    for row in table:
        echo(_line(row, widths))


def _print_wrapped(table: Sequence[Sequence[str]], words: Sequence[int], out: Console) -> None:
    """Print a table with a header on a terminal; the widest columns are narrowed, but not below ``words``."""
    widths = _widths(table)
    while _total(widths) > out.width:
        slack = [width - word for width, word in zip(widths, words, strict=True)]
        widths[max((place for place, free in enumerate(slack) if free), key=widths.__getitem__)] -= 1
    for number, row in enumerate(table):
        cells = [_wrapped(text, width) for text, width in zip(row, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue=""):
            out.print(Text(_line(line, widths), style="" if number else "bold"), soft_wrap=True)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a cell, broken between words that are no wider than ``width``."""
    lines = [""]
    for word in text.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines
