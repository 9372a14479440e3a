"""``turnwise view``: the viewer of a store in the browser."""

from contextlib import ExitStack
from typing import Annotated

import typer

from ...errors import TurnwiseError
from ...store.project import DEFAULT_STORE
from ..options import Store, open_store
from ..terminal.output import console, echo

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
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Show a small store instead, which this command plays first, in seconds, and deletes at its end.",
        ),
    ] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Show runs, groups and episodes in the browser until Ctrl-C; nothing is written to the store.

    A page follows a run that is under way. Every page has its data as JSON under /api.
    """
    try:
        from ..viewer.rendering import url
        from ..viewer.server import serve
    except ModuleNotFoundError as error:
        raise NoViewer(
            f"the viewer needs {error.name}, which is not installed: run `make install` or "
            '`pip install "turnwise[viewer]"`'
        ) from error
    with ExitStack() as opened:
        notice = ""
        if demo:
            from ..demo import NOTICE, demo_store

            console(stderr=True).print("playing the episodes of the demonstration ...")
            store, notice = opened.enter_context(demo_store()), NOTICE
        database = opened.enter_context(open_store(store, read_only=True))
        from ...store import queries

        if run is not None:
            with database.read() as conn:
                queries.find_run(conn, run)
        home = url("runs") if run is None else url("runs", run)
        serve(database, host, port, home, lambda at: echo(f"the viewer is at {at} (Ctrl-C ends it)"), notice=notice)
