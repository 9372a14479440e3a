"""The options that many commands share."""

from typing import Annotated, Literal

import typer

from ..logs import Level, to_terminal

DEFAULT_STORE = "sqlite:///runs/turnwise.db"

Store = Annotated[
    str,
    typer.Option("--store", envvar="TURNWISE_STORE", metavar="URL", help="The trajectory store: a database URL."),
]
Split = Literal["train", "test"]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")]
After = Annotated[str | None, typer.Option("--after", metavar="ID", help="The next page: begin after this id.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the configuration, dotted; repeat for more."),
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
        help="Log to stderr from this level on; also the level of the run's log files, which is else info.",
    ),
]
