"""Article text: lines, headings such as ``== History ==``, and links such as ``[[Aldbury]]``."""

import re

from ..data import Data
from ..html import Html, bullets, join, link, tag
from .base import article_link

HEADING = re.compile(r"==\s*(.+?)\s*==")
LINK = re.compile(r"\[\[([^\[\]\n]+)\]\]")


def normalize(text: str) -> str:
    """Return text as it is stored: no empty lines, and no white space at the ends of lines."""
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def sections(text: str) -> list[tuple[str, str]]:
    """Return heading and text of each section; the text includes the heading line, which the first may lack."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        heading = HEADING.fullmatch(line)
        if heading:
            found.append((heading.group(1), []))
        found[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in found if lines]


def render(db: Data, text: str, article_id: int | None = None) -> Html:
    """Return text as HTML; with an article's id, each section has a link to edit it."""
    parts = list[Html]()
    for number, (heading, body) in enumerate(sections(text)):
        lines = body.split("\n")
        if heading:
            lines = lines[1:]
            parts.append(tag("h2", heading))
            if article_id is not None:
                parts.append(tag("p", link(f"Edit section {heading}", f"/article/{article_id}/section/{number}")))
        parts += [tag("p", _linked(db, line)) for line in lines]
    return join(parts)


def _linked(db: Data, line: str) -> Html:
    parts = list[object]()
    # With one group in the pattern, the odd pieces of a split are the group's matches.
    for number, piece in enumerate(LINK.split(line)):
        row = db.row("SELECT * FROM articles WHERE title = ?", piece) if number % 2 else None
        parts.append(article_link(row) if row else piece)
    return join(parts)


def contents(text: str) -> Html | None:
    """Return the headings as a list, or None if there are fewer than two."""
    headings = [heading for heading, _ in sections(text) if heading]
    return tag("nav", bullets(headings), aria_label="Contents") if len(headings) > 1 else None
