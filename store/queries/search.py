"""Full-text search over observations, actions and errors, in the index that ``maintenance.search_index`` keeps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, text

from ..errors import StoreError
from ..schema import run as run_table

TURNS = 1 << 20
"""The id of an entry is ``no`` of its trajectory times ``TURNS`` plus the index of its turn."""
END = TURNS - 1
"""The index of the entry of a trajectory's final observation and error."""

_PART = re.compile(r'-?"[^"]*"|\S+')
_WORD = re.compile(r"\w+")
WORDS_MAX = 32
"""Words of a search, those of its phrases and the excluded ones included."""
TEXT_MAX = 100_000
"""Bytes per text that are indexed: a `tsvector` has at most 1 MiB, in which words with hyphens count several times."""
PARTS_MAX = 100
RANKED_MAX = 5_000
"""Matches that are ranked, the newest ones: to rank a million takes seconds."""
_MATCH = {
    "sqlite": "SELECT rowid AS id, rank AS score FROM search_index WHERE search_index MATCH :query",
    "postgresql": "SELECT search_index.id, -ts_rank(words, websearch_to_tsquery('simple', :query)) AS score"
    " FROM search_index WHERE words @@ websearch_to_tsquery('simple', :query)",
}
_OF_RUN = """
AND {id} >= :turns * (SELECT CAST(min(no) AS BIGINT) FROM trajectory WHERE run_no = :run)
AND {id} < :turns * (SELECT CAST(max(no) + 1 AS BIGINT) FROM trajectory WHERE run_no = :run)
AND EXISTS (SELECT 1 FROM trajectory WHERE no = {id} / :turns AND run_no = :run)
"""
_HITS = """
SELECT found.id, trajectory.no, trajectory.id AS trajectory, run.id AS run, trajectory.status, found.ranked
FROM (SELECT id, score, count(*) OVER () AS ranked FROM ({match} ORDER BY {id} DESC LIMIT :newest) AS newest) AS found
JOIN trajectory ON trajectory.no = found.id / :turns
JOIN run ON run.no = trajectory.run_no
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
class Matches:
    """The result of a search."""

    entries: Sequence[Entry]
    """The best of the ranked matches, best first."""
    ranked: int
    """At most ``RANKED_MAX``: then older matches may be left out."""


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
        BadSearch: a quote is not closed, an alternative has no word that must occur, or there are too many words.
    """
    if (words := len(_WORD.findall(query))) > WORDS_MAX:
        raise BadSearch(f"the search has {words:,} words; at most {WORDS_MAX} are searched: take the rarest ones")
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


def search(conn: Connection, query: SearchQuery, *, run: str | None = None, limit: int = 50) -> Matches:
    """Return the entries that match best among the newest matches; ``run`` limits the search to one run."""
    dialect = conn.dialect.name
    rendered = _fts5(query) if dialect == "sqlite" else _websearch(query)
    values = {"query": rendered, "limit": limit, "turns": TURNS, "newest": RANKED_MAX}
    id, match = "search_index.rowid" if dialect == "sqlite" else "search_index.id", _MATCH[dialect]
    if run is not None:
        match += _OF_RUN.format(id=id)
        values["run"] = conn.execute(select(run_table.c.no).where(run_table.c.id == run)).scalar_one_or_none() or 0
    rows = conn.execute(text(_HITS.format(match=match, id=id)), values).all()
    entries = [Entry(row.no, row.trajectory, row.run, row.status, row.id % TURNS) for row in rows]
    return Matches(entries, rows[0].ranked if rows else 0)


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


def excerpts(texts: Mapping[str, str], terms: Sequence[str], width: int = 100) -> dict[str, str]:
    """Return by name the parts of ``texts`` in which the words of ``terms`` occur, each on one line; empty without one.

    A text with more of the words that no earlier one has is before others, and shows each of these words once. As in
    the index, a word has letters, digits and underscores only, and a text ends at ``TEXT_MAX``: the ``[/b]`` of a query
    is the word ``b``.
    """
    left = list(dict.fromkeys(_folded(word) for term in terms for word in _WORD.findall(term)))
    folded = {name: _folded(content[:TEXT_MAX]) for name, content in texts.items()}
    phrases = [_folded(term) for term in terms]
    of_text = {name: {one: _place(content, one) for one in (*left, *phrases)} for name, content in folded.items()}
    found: dict[str, str] = {}
    while folded and left:
        name = max(folded, key=lambda one: sum(of_text[one][word] >= 0 for word in left))
        parts, content = [], folded.pop(name)
        while places := {word: at for word in left if (at := of_text[name][word]) >= 0}:
            whole = [at for phrase in phrases if (at := of_text[name][phrase]) >= 0]
            start = max(_start(content, whole, places, width), 0)
            shown = content[start : start + width]
            parts.append(_cut(texts[name], start, width))
            kept = [word for word in left if word not in places or word not in shown]
            left = kept if len(kept) < len(left) else [word for word in left if word != next(iter(places))]
        if parts:
            found[name] = " … ".join(parts).replace("… … …", "…")
    return found


def _folded(content: str) -> str:
    """Return a text without case and with each character in its place, although ``ß`` folds to two."""
    folded = content.casefold()
    if len(folded) == len(content):
        return folded
    return content.translate(
        {ord(char): char.casefold() if len(char.casefold()) == 1 else char.lower()[0] for char in set(content)}
    )


def _start(content: str, whole: Sequence[int], places: Mapping[str, int], width: int) -> int:
    """Return where to cut a text: at one of the ``whole`` phrases, else where most words fit into the width."""
    candidates = [at - width // 3 for at in (whole or places.values())]

    def count(start: int) -> int:
        first = max(start, 0)
        return sum(word in content[first : first + width] for word in places)

    best = max(candidates, key=count)
    return best if count(best) else min(places.values()) - width // 3


def _place(content: str, word: str) -> int:
    """Return where a word begins in a text: as a whole word, or else as a part of one; -1 if it does not occur.

    It is looked for as a whole word in ``PARTS_MAX`` places.
    """
    first = at = content.find(word)
    whole = re.compile(rf"\b{re.escape(word)}\b")
    for _ in range(PARTS_MAX):
        if at < 0 or whole.match(content, at):
            return first if at < 0 else at
        at = content.find(word, at + 1)
    return first


def _cut(content: str, start: int, width: int) -> str:
    part = " ".join(content[start : start + width].split())
    return ("…" if start else "") + part + ("…" if start + width < len(content) else "")
