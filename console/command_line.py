"""The command line: ``turnwise COMMAND``. Each command group has one file and imports slow modules inside its commands.

The head of docs/commands.md (``tools/commands_head.md``) lists the rules of its names and its exit codes.
"""

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException

from .. import __version__
from ..base.logs import set_level
from ..base.process.output import claim_output
from ..base.process.user_code import admit, admit_only
from ..errors import TurnwiseError
from .commands import (
    compare,
    db,
    doctor,
    envs,
    evaluate,
    exchange,
    lineage,
    logs,
    model,
    plan,
    replay,
    runs,
    sandbox,
    score,
    show,
    train,
    trajectories,
    view,
)
from .failure import report, report_usage
from .options import ProjectStore
from .terminal.streams import flush_stdout
from .usage import leaves, name_values, set_default, use_own_words

app = typer.Typer(
    name="turnwise",
    help="Train language-model agents by reinforcement learning in real multi-turn environments.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("train")(train.train)
app.command("plan")(plan.plan)
app.command("eval")(evaluate.evaluate)
app.command("doctor")(doctor.doctor)
app.command("view")(view.view)
trajectories.app.command("show")(show.show)
trajectories.app.command("replay")(replay.replay)
trajectories.app.command("export")(exchange.export_trajectories)
trajectories.app.command("import")(exchange.import_trajectories)
runs.app.command("compare")(compare.compare_runs)
runs.app.command("lineage")(lineage.lineage_of_update)
runs.app.command("score")(score.score)
runs.app.command("logs")(logs.logs)
trajectories.app.command("lineage")(lineage.lineage_of_trajectory)
app.add_typer(runs.app, name="runs")
app.add_typer(trajectories.app, name="trajectories")
app.add_typer(envs.app, name="envs")
app.add_typer(model.app, name="model")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(db.app, name="db")
use_own_words(app)


NAMING = ("env", "env_id", "option", "overrides", "reward")
"""The parameters of commands by which a person names environments and components."""


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


def _import(modules: list[str] | None) -> None:
    for module in (one.partition(":")[0] for one in modules or []):
        admit(f"{module}:")
        try:
            import_module(module)
        except (Exception, SystemExit) as error:
            raise TurnwiseError(f"`--import {module}`: {type(error).__name__}: {error}") from error


def _claiming(run: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a command that claims stdout first, and admits the modules that its options name: ``--help`` does not."""
    assert run is not None  # noqa: S101

    @wraps(run)
    def claiming(*arguments: Any, **options: Any) -> Any:
        claim_output()
        admit([options.get(name) for name in NAMING])
        _import(options.get("modules"))
        return run(*arguments, **options)

    return claiming


def main() -> None:
    """Run the command line. An exception becomes one line on stderr."""
    set_level("info")
    command = typer.main.get_command(app)
    admit_only(())
    try:
        for _, leaf in leaves(command):
            leaf.callback = _claiming(leaf.callback)
            name_values(leaf)
            set_default(leaf, "store", ProjectStore())
        try:
            sys.exit(command(prog_name="turnwise", standalone_mode=False))
        finally:
            flush_stdout()
            admit_only(None)
    except TyperException as error:
        sys.exit(report_usage(error))
    except Exception as error:  # noqa: BLE001 - every error of a command is reported
        sys.exit(report(error))
