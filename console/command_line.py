"""The command line: ``turnwise COMMAND``. Each command group has one file and imports slow modules inside its commands.

Exit codes:

* 1: the command ran and its result is negative, such as a replay that differs or a check that failed.
* 2: a ``TurnwiseError`` (one message on stderr) or a wrong argument.

Any other exception is a bug and prints its traceback.
"""

import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import TurnwiseError
from ..logs import set_level
from .commands import db, doctor, envs, evaluate, logs, model, plan, runs, sandbox, train
from .commands.episodes import exchange, lineage, replay, score, trajectories
from .terminal.sanitize import indented

OPTIONAL_PACKAGES = frozenset(
    {"httpx", "matplotlib", "psutil", "ray", "safetensors", "tokenizers", "torch", "transformers", "vllm"}
)
"""Packages that training needs and the core does not. If one is missing, the user installs it."""

app = typer.Typer(
    name="turnwise",
    help="Train language-model agents by reinforcement learning in real multi-turn environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("plan")(plan.plan)
app.command("eval")(evaluate.evaluate)
app.command("replay")(replay.replay)
app.command("export")(exchange.export_trajectories)
app.command("import")(exchange.import_trajectories)
app.command("score")(score.score)
app.command("doctor")(doctor.doctor)
app.command("logs")(logs.logs)
app.add_typer(runs.app, name="runs")
app.add_typer(trajectories.app, name="trajectories")
app.add_typer(lineage.app, name="lineage")
app.add_typer(envs.app, name="envs")
app.add_typer(model.app, name="model")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(db.app, name="db")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"turnwise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version.")
    ] = False,
) -> None:
    """Train language-model agents by reinforcement learning in real multi-turn environments."""


def main() -> None:
    """Run the command line; a ``TurnwiseError`` becomes one message and exit 2."""
    set_level("info")
    try:
        app()
    except TurnwiseError as error:
        sys.stderr.write(f"turnwise: {indented(str(error))}\n")
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in OPTIONAL_PACKAGES:
            raise
        sys.stderr.write(
            f"turnwise: this command needs {error.name}, which is not installed: run `make install` "
            'or `pip install "turnwise[cpu]"` (`[gpu]` on a machine with a GPU)\n'
        )
        sys.exit(2)
