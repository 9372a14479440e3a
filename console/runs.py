"""``turnwise runs``: the runs of a store."""

import typer

app = typer.Typer(help="The runs of a store.", no_args_is_help=True)
