"""The parameters of the commands as the help texts show them, without a library's notation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ..base.process.start import set_variable
from ..store.project import RUNS_VARIABLE

METAVARS = {"int": "N", "float": "X", "Path": "PATH", "str": "TEXT"}
"""The placeholder of an option's value, by the name of its type."""


class Command(typer.core.TyperCommand):
    """A command whose usage line is ``turnwise runs show [OPTIONS] RUN``. One with ``--store`` also has ``--runs``."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        store: Any = next((one for one in self.params if one.name == "store"), None)
        if store is not None:
            self.params.append(
                typer.core.TyperOption(
                    param_decls=["--runs", "folder_of_runs"],  # some commands have a parameter named `runs`
                    type_descriptor=store.type_descriptor,
                    envvar=RUNS_VARIABLE,
                    metavar="FOLDER",
                    help="Folder of the runs.",
                    callback=_name_runs,
                    expose_value=False,
                )
            )

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the pieces of the usage line; a required argument has no braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


def _name_runs(ctx: Any, parameter: Any, value: str | None) -> None:
    """Name the folder of runs for this process and those that it starts."""
    if value:
        if "\0" in value:
            raise typer.BadParameter("a path has no null character", ctx, parameter)
        set_variable(RUNS_VARIABLE, str(Path(value).absolute()))


def use_own_words(app: typer.Typer) -> None:
    """Make every command of ``app`` and of its groups a ``Command``."""
    for info in app.registered_commands:
        info.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            use_own_words(group.typer_instance)


def name_values(command: Any) -> None:
    """Name values by one word: ``--seed N`` in place of ``--seed <int range>``, ``RUN`` in place of ``RUN <str>``."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
            continue
        kind = parameter.type_descriptor
        name = getattr(kind.annotation, "__name__", "")
        if parameter.metavar is None and not kind.is_choice and name in METAVARS:
            parameter.metavar = METAVARS[name]


def set_default(command: Any, name: str, value: object) -> None:
    """Set the default of a parameter, if the command has one of this name.

    A default that can be called is called by a command that uses it; ``--help`` shows its text.
    """
    for parameter in command.params:
        if parameter.name == name:
            parameter.default = value


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the commands that are not groups of commands, each with its words."""
    if isinstance(command, typer.core.TyperGroup):
        for name, one in command.commands.items():
            yield from leaves(one, (*path, name))
    else:
        yield path, command
