"""Full-text search over observations, actions and errors, in the index that ``maintenance.search_index`` keeps."""

import re
from dataclasses import dataclass

from sqlalchemy import Connection, text

from ..errors import StoreError

TURNS = 1 << 20
"""The id of an entry is ``no`` of its trajectory times ``TURNS`` plus the index of its turn."""
END = TURNS - 1
"""The index of the entry of a trajectory's final observation and error."""

_PART = re.compile(r'-?"[^"]*"|\S+')
_WORD = re.compile(r"\w+")
_MATCH = {
    "sqlite": "SELECT rowid AS id, rank AS score FROM search_index WHERE search_index MATCH :query",
    "postgresql": "SELECT id, -ts_rank(words, websearch_to_tsquery('simple', :query)) AS score FROM search_index "
    "WHERE words @@ websearch_to_tsquery('simple', :query)",
}
_HITS = """
SELECT found.id, trajectory.no, trajectory.id AS trajectory, run.id AS run, trajectory.status
FROM ({match}) AS found
JOIN trajectory ON trajectory.no = found.id / :turns
JOIN run ON run.no = trajectory.run_no
WHERE (:run = '' OR run.id = :run)
ORDER BY found.score, found.id DESC
LIMIT :limit
"""


class BadSearch(StoreError):
    """The text of a search cannot be read as a query."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A turn that matches, or the end of a trajectory."""

    no: int
    """``trajectory.no``"""
    trajectory: str
    run: str
    status: str
    turn: int
    """Index of the turn; ``END`` for the final observation and the error."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search: alternatives, each with terms that must occur and terms that must not."""

    alternatives: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]

    @property
    def terms(self) -> list[str]:
        """The words and phrases that a match may contain."""
        return [term for wanted, _ in self.alternatives for term in wanted]


def parse(query: str) -> SearchQuery:
    """Read words (all must occur), ``"phrases"``, ``-excluded`` words and ``OR``.

    Raises:
        BadSearch: a quote is not closed, or an alternative has no word that must occur.
    """
    if query.count('"') % 2:
        raise BadSearch(f'the search `{query}` has a quote that is not closed: write `"two words"`')
    found: list[tuple[list[str], list[str]]] = [([], [])]
    for part in _PART.findall(query):
        if part == "OR":
            found.append(([], []))
            continue
        term = part.removeprefix("-").replace('"', " ").strip()
        if _WORD.search(term):
            found[-1][part.startswith("-") and len(part) > 1].append(term)
    if not all(wanted for wanted, _ in found):
        raise BadSearch(
            f"the search `{query}` needs a word that occurs in the text, on each side of an `OR`; "
            "words after `-` only exclude"
        )
    return SearchQuery(tuple((tuple(wanted), tuple(unwanted)) for wanted, unwanted in found))


def search(conn: Connection, query: SearchQuery, *, run: str | None = None, limit: int = 50) -> list[Entry]:
    """Return the entries that match best, best first; ``run`` limits the search to one run."""
    dialect = conn.dialect.name
    rendered = _fts5(query) if dialect == "sqlite" else _websearch(query)
    statement = text(_HITS.format(match=_MATCH[dialect]))
    rows = conn.execute(statement, {"query": rendered, "run": run or "", "limit": limit, "turns": TURNS})
    return [Entry(row.no, row.trajectory, row.run, row.status, row.id % TURNS) for row in rows]


def _fts5(query: SearchQuery) -> str:
    """Return the query in the syntax of FTS5, with every term as a quoted string."""
    return " OR ".join(
        "(" + " NOT ".join(["(" + " AND ".join(map(_quoted, wanted)) + ")", *map(_quoted, unwanted)]) + ")"
        for wanted, unwanted in query.alternatives
    )


def _websearch(query: SearchQuery) -> str:
    """Return the query in the syntax of ``websearch_to_tsquery``."""
    return " or ".join(
        " ".join([*map(_quoted, wanted), *(f"-{_quoted(term)}" for term in unwanted)])
        for wanted, unwanted in query.alternatives
    )


def _quoted(term: str) -> str:
    return f'"{term}"'


def excerpt(content: str, terms: list[str], width: int = 100) -> str | None:
    """Return the part of ``content`` around the first word of ``terms`` that occurs, on one line; None if none occurs.

    As in the index, a word has letters, digits and underscores only: the ``[/b]`` of a query is the word ``b``.
    """
    folded = content.casefold()
    found = [at for term in terms for word in _WORD.findall(term) if (at := folded.find(word.casefold())) >= 0]
    if not found:
        return None
    start = max(min(found) - width // 3, 0)
    part = " ".join(content[start : start + width].split())
    return ("…" if start else "") + part + ("…" if start + width < len(content) else "")
