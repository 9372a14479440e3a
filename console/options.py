"""The options that many commands share."""

from typing import Annotated, Literal

import typer

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
