"""The words of the command line itself: help texts without a library's notation, and a wrong argument as one line."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import typer

from ..errors import reason
from ..process.start import set_variable
from ..store.project import RUNS_VARIABLE
from .terminal.sanitize import one_line

MAX_VALUE_CHARS = 60
"""Limit on a wrong value in a message, in characters."""
METAVARS = {"int": "N", "float": "X", "Path": "PATH", "str": "TEXT"}
"""The placeholder of an option's value, by the name of its type."""
UNKNOWN_COMMAND = re.compile(r"No such command '(?P<name>.*?)'\.", re.DOTALL)
EXTRA_ARGUMENTS = re.compile(r"Got unexpected extra argument.*\((?P<words>.*)\)", re.DOTALL)


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


def explain(error: Any, root: Any) -> str:
    """Return a wrong use of the command line as one line: what is wrong, the nearest name, and where help is."""
    if hasattr(error, "option_name") and not hasattr(error, "possibilities"):
        needs = "takes no value" if "does not take" in error.message else "needs a value"
        return f"the option `{_short(error.option_name)}` {needs}"
    if error.ctx is None:
        return f"{one_line(error.format_message(), None)}; `turnwise --help` lists the commands"
    command = one_line(error.ctx.command_path, None)
    return f"{_wrong(error, command, root)}; `{command} --help` lists {_listed(error.ctx.command)}"


def _listed(command: Any) -> str:
    return "the commands" if isinstance(command, typer.core.TyperGroup) else "the options"


def _wrong(error: Any, command: str, root: Any) -> str:
    message = error.format_message()
    if hasattr(error, "possibilities"):
        known = [name for one in error.ctx.command.get_params(error.ctx) for name in (*one.opts, *one.secondary_opts)]
        return f"`{command}` has no option `{_short(error.option_name)}`{_near(error.option_name, known)}"
    if unknown := UNKNOWN_COMMAND.match(message):
        return _unknown_command(unknown["name"], command, error.ctx.command, root)
    if extra := EXTRA_ARGUMENTS.match(message):
        return f"`{command}` takes no further argument, got `{_short(extra['words'])}`"
    parameter = getattr(error, "param", None)
    if parameter is None:
        return _short(message.rstrip("."), None)
    is_option = parameter.param_type_name == "option"
    if not error.message:
        name = f"the option `{parameter.opts[0]}`" if is_option else parameter.metavar or parameter.name.upper()
        return f"`{command}` needs {name}"
    return _invalid(error, parameter, parameter.opts[0] if is_option else parameter.metavar or parameter.name.upper())


def _invalid(error: Any, parameter: Any, name: str) -> str:
    """Return why the value of a parameter is not valid; a choice names the nearest one."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    value = details[0]["input"] if details else None
    why = reason(details[0]) if details else error.message
    kind = parameter.type_descriptor
    if kind.is_choice:
        choices = [str(getattr(choice, "value", choice)) for choice in kind.choices]
        why = f"must be one of {', '.join(choices)}{_near(str(value), choices)}"
    if str(value) == "nan":
        why = "must be a finite number"
    given = f" {_short(value)}" if isinstance(value, str | int | float) else ""
    return f"`{name}{given}`: {_short(why, None)}"


def _unknown_command(name: str, command: str, group: Any, root: Any) -> str:
    """Return that a group lacks a command, with the nearest one of the group or, by its last word, of another group."""
    elsewhere = [" ".join(("turnwise", *path)) for path, _ in leaves(root) if path[-1] == name]
    near = f" (did you mean `{' or '.join(elsewhere)}`?)" if elsewhere else _near(name, list(group.commands))
    return f"`{command}` has no command `{_short(name)}`{near}"


def _near(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean `{close[0]}`?)" if close else ""


def _short(text: object, limit: int | None = MAX_VALUE_CHARS) -> str:
    return one_line(str(text), limit)
