"""Full-text search over observations, actions and errors."""

from collections.abc import Sequence
from dataclasses import dataclass

from ....store import queries
from ....store.database import Database
from ....store.maintenance.search_index import SearchHit, clean, hits_of, unindexed
from ....store.queries.search import RANKED_MAX, BadSearch, parse, search
from ..given import Given
from ..links import page_of_id

HITS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The best matches of a search."""

    text: str
    run: str | None
    hits: Sequence[SearchHit]
    unindexed: int | None
    """Ended trajectories that the index lacks; None if the store has no index."""
    quoted: str
    """The first term of the search, which the browser highlights on the page of a hit."""
    problem: str
    """Why the text is no search; empty if it is one."""
    named: str | None = None
    """The path of the run, group or trajectory that has the text as its id."""
    newest: int | None = None
    """The number of matches that were ranked, the newest ones; None if those are all."""


def load_search(database: Database, given: Given) -> SearchPage:
    """Return the matches of ``q``, of the run ``run`` if it is given. The index is read as it is."""
    text, run = clean(given.text("q") or ""), given.text("run")
    with database.read() as conn:
        if run is not None:
            queries.find_run(conn, run)
        left, named = unindexed(conn), page_of_id(conn, text.strip()) if text.strip() else None
        if left is None or not text.strip():
            return SearchPage(text, run, [], left, "", "", named)
        try:
            parsed = parse(text)
        except BadSearch as error:
            return SearchPage(text, run, [], left, "", "" if named else str(error), named)
        found = search(conn, parsed, run=run, limit=HITS_SHOWN)
        hits = hits_of(conn, database.blobs, found.entries, parsed.terms)
    newest = RANKED_MAX if found.ranked == RANKED_MAX else None
    return SearchPage(text, run, hits, left, parsed.terms[0], "", named, newest)
