"""``turnwise trajectories search``: full-text search over observations, actions and errors."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...options import DEFAULT_STORE, Json, Limit, Store
from ...stores import open_store
from ...terminal.output import console, empty_message, print_json, print_table
from ...terminal.sanitize import one_line

if TYPE_CHECKING:
    from ....store.database import Database


def search(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help='Words that all occur; also "a phrase", -excluded and OR.')
    ],
    run: Annotated[str | None, typer.Option(help="Only trajectories of this run.")] = None,
    limit: Limit = 50,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Search observations, actions and errors, best match first.

    The first search of a store indexes it; later ones index the trajectories that ended since.
    """
    from ....store import queries
    from ....store.maintenance.search_index import clean, update_index
    from ....store.queries.search import parse
    from ....store.queries.search import search as find

    parsed = parse(clean(query))
    with open_store(store) as database:
        with database.read() as conn:
            if run is not None:
                queries.find_run(conn, run)
        is_complete = update_index(database)
        with database.read() as conn:
            hits = [_shown(database, conn, entry, parsed.terms) for entry in find(conn, parsed, run=run, limit=limit)]
    if as_json:
        print_json({"complete": is_complete, "hits": hits})
    else:
        columns = ("trajectory", "turn", "field", "status", "text")
        rows = [[hit[name] for name in columns] for hit in hits]
        print_table(columns, rows, empty=empty_message("turn", {"query": query, "run": run}))
    if not is_complete:
        console(stderr=True).print("some trajectories are not indexed yet: search again to index more", soft_wrap=True)


def _shown(database: "Database", conn: Any, entry: Any, terms: list[str]) -> dict[str, object]:
    """Return a hit with the part of its text that matches."""
    from ....store.maintenance.search_index import texts_of
    from ....store.queries.search import END, excerpt

    texts = {name: content for name, content in texts_of(conn, database.blobs, entry).items() if content}
    found = {name: part for name, content in texts.items() if (part := excerpt(content, terms)) is not None}
    # The index also finds other spellings, such as `cafe` for `café`: then a text is shown from its beginning.
    found = found or {name: one_line(content[:1_000], 100) for name, content in texts.items()}
    field, part = next(iter(found.items()), ("", "(removed by retention)"))
    return {
        "trajectory": entry.trajectory,
        "run": entry.run,
        "status": entry.status,
        "turn": None if entry.turn == END else entry.turn,
        "field": field,
        "text": part,
    }
