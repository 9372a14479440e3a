"""``turnwise trajectories``: the episodes of a store."""

import typer

app = typer.Typer(help="The episodes of a store.", no_args_is_help=True)
