"""``turnwise view``: the viewer of a store in the browser."""

from typing import Annotated

import typer

from ...errors import TurnwiseError
from ...store.project import DEFAULT_STORE
from ..options import Store, open_store
from ..terminal.output import echo

DEFAULT_PORT = 8600


class NoViewer(TurnwiseError):
    """The packages of the viewer are not installed."""


def view(
    run: Annotated[str | None, typer.Option("--run", help="Open the page of this run.")] = None,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on. On another than a loopback address, a token is needed."),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65_535, help="Port to listen on; 0 for a free one.")
    ] = DEFAULT_PORT,
    store: Store = DEFAULT_STORE,
) -> None:
    """Show runs, groups and episodes in the browser until Ctrl-C; nothing is written to the store.

    A page follows a run that is under way. Every page has its data as JSON under /api.
    """
    with open_store(store, read_only=True) as database:
        from ...store import queries

        if run is not None:
            with database.read() as conn:
                queries.find_run(conn, run)
        try:
            from ..viewer.server import serve
        except ModuleNotFoundError as error:
            raise NoViewer(
                f"the viewer needs {error.name}, which is not installed: run `make install` or "
                '`pip install "turnwise[viewer]"`'
            ) from error
        serve(database, host, port, run, lambda address: echo(f"the viewer is at {address} (Ctrl-C ends it)"))
