"""``turnwise db``: the schema of the store's database."""

import typer

from ..options import DEFAULT_STORE, Json, Store
from ..terminal.output import print_fields, print_json

app = typer.Typer(help="The store's database schema.", no_args_is_help=True)


@app.command()
def upgrade(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Upgrade the database to this program's revision; create the database if it does not exist."""
    from ...store import database

    database.upgrade(store)
    _show(store, as_json)


@app.command()
def current(store: Store = DEFAULT_STORE, as_json: Json = False) -> None:
    """Show the revisions of the database and of this program; exit 1 if they differ."""
    if not _show(store, as_json):
        raise typer.Exit(1)


def _show(store: str, as_json: bool) -> bool:
    from ...store import database

    revision, head = database.revisions(store)
    if as_json:
        print_json({"revision": revision, "head": head})
    else:
        print_fields({"revision": revision or "none (an empty database)", "program": head})
    return revision == head
