"""``turnwise view``: the viewer of a store in the browser."""

import os
import signal
import sys
import webbrowser
from contextlib import ExitStack
from typing import Annotated

import typer

from ...store.project import DEFAULT_STORE
from ..options import Imports, SandboxOptions, Store, open_store, refuse_together
from ..terminal.output import console, echo
from .envs import choose_sandboxes

DEFAULT_PORT = 8600


def view(
    link: Annotated[
        str | None,
        typer.Option(
            "--open",
            metavar="LINK",
            help="Open this page: a path, a URL of the viewer, or the ID of a run, group or trajectory. If the port "
            "is taken, the error names the address of the page.",
        ),
    ] = None,
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
    sandbox: SandboxOptions = None,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Show runs, groups and episodes in the browser until Ctrl-C; nothing is written to the store.

    A page follows a run that is under way. Every page has its data as JSON under /api.
    """
    refuse_together({"--demo": demo, "--open": bool(link)})
    from ..viewer.links import page_of
    from ..viewer.rendering import url
    from ..viewer.server import serve

    choose_sandboxes(sandbox)
    _end_in_order()
    with ExitStack() as opened:
        notice = ""
        if demo:
            from ..demo import NOTICE, demo_store

            console(stderr=True).print("playing the episodes of the demonstration ...")
            store, notice = opened.enter_context(demo_store()), NOTICE
        database = opened.enter_context(open_store(store, read_only=True))
        home = url("runs") if link is None else page_of(database, link)

        def report(address: str) -> None:
            echo(f"the viewer is at {address} (Ctrl-C ends it)")
            if link is not None:
                _browse(address)

        serve(database, host, port, home, report, notice=notice)


def _end_in_order() -> None:
    """Let SIGTERM and a closed terminal remove sandboxes and temporary folders, as Ctrl-C does.

    The server ends at SIGINT also if a shell that started it in the background ignores the signal: so does the command.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # ``nohup`` ignores it
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def _browse(address: str) -> None:
    """Open a page in the browser, if there is a screen."""
    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)
