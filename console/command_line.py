"""The command line: ``turnwise COMMAND``. One file a command group; what is heavy is imported when its command runs.

An error of ours (``TurnwiseError``) is one message on stderr and exit 2; so is a wrong argument. Exit 1 is a command's
own "no": a replay that differs, a check that failed. Anything else that escapes is a bug and shows its traceback.
"""

import sys
from typing import Annotated

import typer

from .. import __version__
from ..errors import TurnwiseError
from ..logs import set_level
from .commands import db, doctor, envs, evaluate, logs, model, replay, runs, sandbox, train, trajectories
from .terminal.sanitize import indented

EXTRAS = frozenset(
    {"httpx", "matplotlib", "psutil", "ray", "safetensors", "tokenizers", "torch", "transformers", "vllm"}
)
"""What training needs and the core does not: missing, it is a matter for the user."""

app = typer.Typer(
    name="turnwise",
    help="Train language-model agents by reinforcement learning in real multi-turn environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("eval")(evaluate.evaluate)
app.command("replay")(replay.replay)
app.command("doctor")(doctor.doctor)
app.command("logs")(logs.logs)
app.add_typer(runs.app, name="runs")
app.add_typer(trajectories.app, name="trajectories")
app.add_typer(envs.app, name="envs")
app.add_typer(model.app, name="model")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(db.app, name="db")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"turnwise {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Print it.")] = False,
) -> None:
    """Train language-model agents by reinforcement learning in real multi-turn environments."""


def main() -> None:
    """Run the command line; every error of ours becomes a message and exit 2."""
    set_level("info")
    try:
        app()
    except TurnwiseError as error:
        sys.stderr.write(f"turnwise: {indented(str(error))}\n")
        sys.exit(2)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRAS:
            raise
        sys.stderr.write(
            f"turnwise: this command needs {error.name}, which is not installed: make install, "
            'or pip install "turnwise[cpu]" ([gpu] on a machine with one)\n'
        )
        sys.exit(2)
