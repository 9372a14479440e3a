"""Options that several commands share, and the store that ``--store`` names."""

import math
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from ..base.logs import Level, to_terminal
from ..base.masking import without_secrets
from ..errors import TurnwiseError
from ..records import Purpose, Status
from ..store.project import DEFAULT_STORE, InvalidProject, project_store
from .terminal.output import console

if TYPE_CHECKING:
    from ..store.database import Database


Store = Annotated[
    str,
    typer.Option("--store", envvar="TURNWISE_STORE", metavar="URL", help="The trajectory store: a database URL."),
]


class ProjectStore:
    """The default of ``--store``: the project file is read by the commands that use it, and shown by ``--help``."""

    def __call__(self) -> str:
        """Return the store. Raises InvalidProject."""
        return project_store(_note) or DEFAULT_STORE

    def __str__(self) -> str:
        with suppress(InvalidProject):
            return without_secrets(project_store() or DEFAULT_STORE)
        return DEFAULT_STORE


def _note(text: str) -> None:
    console(stderr=True).print(f"turnwise: {text}", soft_wrap=True)


MAX_COMPLETIONS = 100
"""Names of runs that a shell offers, the newest first."""


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of runs that begin with ``incomplete``; none if the store is not a file of SQLite here.

    A shell runs this at each press of the key: nothing is imported, created or waited for, and nothing is reported.
    """
    with suppress(sqlite3.Error, TurnwiseError, ValueError):
        given = ctx.params.get("store")
        url = str(given) if given else os.environ.get("TURNWISE_STORE") or project_store() or DEFAULT_STORE
        file = url.removeprefix("sqlite:///").partition("?")[0]
        # Without the file of a log nobody has the store open; SQLite would create one, and leave it here.
        mode = "mode=ro" if Path(f"{file}-wal").exists() else "mode=ro&immutable=1"
        with closing(sqlite3.connect(f"file:{quote(file)}?{mode}", uri=True, timeout=0.2)) as database:
            which = "SELECT id FROM run WHERE substr(id, 1, ?) = ? ORDER BY no DESC LIMIT ?"
            rows = database.execute(which, (len(incomplete), incomplete, MAX_COMPLETIONS))
            return [name for (name,) in rows if re.fullmatch(r"[\w.-]+", name, re.ASCII)]
    return []


Imports = Annotated[
    list[str] | None,
    typer.Option("--import", metavar="MODULE", help="A module that stored names select; repeatable."),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's name.", autocompletion=complete_run)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MAX_COUNT = 2**31 - 1
"""Largest value of a count that has no smaller limit."""


def _temperature(value: float | None) -> float | None:
    from ..agents.engine.request import check_temperature

    if value is None:
        return None
    if not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number")
    try:
        return check_temperature(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


RUN_DEFAULT = "Default: the value of the checkpoint's run, otherwise"
Temperature = Annotated[
    float | None,
    typer.Option(
        "--temperature",
        min=0.0,
        max=100.0,
        callback=_temperature,
        help=f"Sampling temperature of a model; 0 is greedy. {RUN_DEFAULT} 1.",
    ),
]
TaskSeed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of the task.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of rows.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="ID", help="Print the next page: the rows after this ID.")
]
OfRun = Annotated[str | None, typer.Option("--run", help="Only trajectories of this run.", autocompletion=complete_run)]
OfStatus = Annotated[Status | None, typer.Option("--status", help="Only trajectories with this status.")]
OfEnv = Annotated[str | None, typer.Option("--env", metavar="ID", help="Only trajectories of this environment.")]
OfPurpose = Annotated[Purpose | None, typer.Option("--purpose", help="Only trajectories with this purpose.")]
OfPolicy = Annotated[
    str | None, typer.Option("--policy", help="Only this policy: random, oracle, …; empty: the trained policy.")
]
OfSuccess = Annotated[
    bool | None,
    typer.Option("--success/--failure", help="Only those that a success rate counts as success or as failure."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a configuration key (dotted path); repeatable."),
]

ApiKeyEnv = Annotated[
    str,
    typer.Option(
        "--api-key-env",
        metavar="NAME",
        help="With the URL of a server: the environment variable that holds its key, sent as a bearer token.",
    ),
]

SandboxOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--sandbox",
        metavar="KEY=VALUE",
        help="A setting of the sandboxes, as in the table `sandboxes` of a configuration: backend=local; repeatable.",
    ),
]


def _log(level: Level | None) -> Level | None:
    if level is not None:
        to_terminal(level)
    return level


LogLevel = Annotated[
    Level | None,
    typer.Option(
        "--log-level",
        envvar="TURNWISE_LOG_LEVEL",
        callback=_log,
        help="Log to stderr from this level on; also the level of the run's log files. Default of the files: info.",
    ),
]


def refuse_together(*pairs: Mapping[str, bool]) -> None:
    """Raise ``BadParameter`` if all options of one of ``pairs`` are given: the second would change nothing."""
    for pair in pairs:
        if all(pair.values()):
            first, second = pair
            raise typer.BadParameter(f"`{first}` and `{second}` exclude each other")


@contextmanager
def open_store(url: str, *, read_only: bool = False) -> "Iterator[Database]":
    """Open the store at ``url`` and close it at the end of the block.

    Raises:
        WrongRevision: the store has another revision than this program; the message contains the command to run.
        StoreError: the store does not exist, or the database does not respond.
    """
    from ..store.database import open_database

    database = open_database(url, read_only=read_only)
    try:
        yield database
    finally:
        database.close()
