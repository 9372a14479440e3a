"""``turnwise envs``: which environments there are, whether one keeps its contract, and a first one of your own."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import TurnwiseError
from ..options import Json, Split
from ..terminal.output import GUTTER, console, jsonable, print_json, print_table
from ..terminal.sanitize import indented

app = typer.Typer(help="Environments.", no_args_is_help=True)

EnvId = Annotated[str, typer.Argument(metavar="ID", help="Such as turnwise/TextSite-v0, or my_pkg.envs:Id-v0.")]
EnvOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the environment's constructor; repeat for more."),
]


class BadOption(TurnwiseError):
    """An environment's option is not ``key=value``."""


def read_options(assignments: list[str] | None) -> dict[str, Any]:
    """The constructor's options; a value is JSON, or plain text where it is not.

    Raises:
        BadOption: one has no ``=``.
    """
    options: dict[str, Any] = {}
    for assignment in assignments or []:
        key, separator, text = assignment.partition("=")
        if not separator or not key:
            raise BadOption(f"--option {assignment}: expected key=value")
        try:
            options[key] = json.loads(text)
        except json.JSONDecodeError:
            options[key] = text
    return options


@app.command("list")
def list_envs(as_json: Json = False) -> None:
    """Show the registered environments, and the plugins that would not load."""
    from ...envs import registry

    found = [{"id": env_id, "status": "registered", "detail": ""} for env_id in registry.all_ids()]
    broken = registry.broken_plugins().items()
    found += [{"id": point, "status": "broken plugin", "detail": why} for point, why in broken]
    if as_json:
        print_json(found)
    else:
        print_table(("id", "status", ""), [tuple(row.values()) for row in found], empty="no environment is registered")


@app.command()
def check(env_id: EnvId, option: EnvOptions = None, as_json: Json = False) -> None:
    """Check an environment's contract: determinism, bounds, reset after failure; exit 1 if it is broken."""
    from ...envs.tools.check import Finding, heading
    from ...envs.tools.check import check as check_env

    def begin(name: str) -> None:
        if not as_json:
            typer.echo(heading(name), nl=False)

    def tell(finding: Finding) -> None:
        if not as_json:
            console().print(indented(finding.ending(), GUTTER), soft_wrap=True)

    report = check_env(env_id, read_options(option), on_start=begin, on_result=tell)
    if as_json:
        print_json({"ok": report.ok, **jsonable(report)})
    else:
        for line in [*report.latencies(), report.summary()]:
            console().print(line, soft_wrap=True)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def play(
    env_id: EnvId,
    seed: Annotated[int, typer.Option(min=0, help="Of the task.")] = 0,
    split: Annotated[Split, typer.Option(help="Of the tasks.")] = "train",
    option: EnvOptions = None,
) -> None:
    """Play one episode by hand, an action a line."""
    from .play import play_episode

    play_episode(env_id, seed=seed, split=split, options=read_options(option))


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The package's name, such as my_envs.")],
    folder: Annotated[Path, typer.Option("--in", help="Where to make its folder.")] = Path(),
) -> None:
    """Write a working package of one short environment with its test."""
    from ...envs.tools.new import env_id
    from ...envs.tools.new import new as scaffold

    root = scaffold(name, folder)
    where = root if root.is_absolute() else f"./{root}"
    typer.echo(f"{where}: now `pip install {where}`, then `turnwise envs check {env_id(name)}`")
