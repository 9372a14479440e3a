"""``turnwise envs``: list, check, play and create environments."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from ...errors import TurnwiseError
from ...records import Split
from ..options import Json, SandboxOptions, TaskSeed
from ..terminal.output import console, echo, jsonable, print_json, print_lines, print_text
from ..terminal.tables import print_table

if TYPE_CHECKING:
    from ...envs.authoring.listing import Listed
    from ...envs.spaces import Png

app = typer.Typer(help="List, check, play and create environments.", no_args_is_help=True)

EnvId = Annotated[
    str, typer.Argument(metavar="ID", help="Environment id, such as turnwise/TextSite-v0 or my_pkg.envs:Id-v0.")
]
EnvOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the environment's constructor; repeatable."),
]


Kind: TypeAlias = Literal["turns", "dataset", "sandbox", "site"]
"""The kinds of environments that `envs new` writes."""


class InvalidOption(TurnwiseError):
    """``--option`` or ``--sandbox`` is not ``key=value``."""


def read_options(assignments: list[str] | None, flag: str = "--option") -> dict[str, Any]:
    """Return the keys and values that the option ``flag`` assigns. A value that is not JSON is plain text.

    Raises:
        InvalidOption: an assignment has no ``=`` or no key.
    """
    options: dict[str, Any] = {}
    for key, text in _texts(assignments, flag).items():
        try:
            options[key] = json.loads(text, parse_constant=int)  # NaN is a text
        except (ValueError, RecursionError):
            options[key] = text
    return options


def read_env_options(env_id: str, assignments: list[str] | None) -> dict[str, Any]:
    """Return the options of an environment that ``--option`` assigns: text where its constructor declares a text.

    Raises:
        InvalidOption: an assignment has no ``=`` or no key.
    """
    options = read_options(assignments)
    if all(isinstance(value, str) for value in options.values()):
        return options
    from ...envs.registry import options_as_declared

    return options_as_declared(env_id, options, _texts(assignments, "--option"))


def _texts(assignments: list[str] | None, flag: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    for assignment in assignments or []:
        key, separator, text = assignment.partition("=")
        if not separator or not key:
            raise InvalidOption(f"{flag} {assignment}: expected key=value")
        texts[key] = text
    return texts


def choose_sandboxes(assignments: list[str] | None) -> None:
    """Lease the sandboxes of this process with the settings that ``--sandbox`` assigns.

    Raises:
        InvalidOption: an assignment has no ``=`` or no key.
        TurnwiseError: a setting is unknown or invalid.
    """
    from ...envs.sandboxes import lease_in_process, sandbox_settings

    lease_in_process(sandbox_settings(read_options(assignments, "--sandbox")))


@app.command("list")
def list_envs(
    containing: Annotated[
        str, typer.Argument(metavar="TEXT", help="List only ids that contain this text, each in a row.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="List each task of MiniWoB++ in a row.")] = False,
    as_json: Json = False,
) -> None:
    """List the registered environments, yours first; exit 1 if none matches.

    The number of tasks is of the splits train and test. A plugin that failed to load is listed with the error.
    """
    from ...envs.authoring.listing import Listed, listed
    from ...envs.errors import UnknownEnvironment
    from ...envs.registry import load_plugins

    found, failed = list[Listed](), ""
    try:
        found = listed(containing, unfold=every or as_json or bool(containing))
    except UnknownEnvironment as error:
        failed = str(error)
    found = [*(Listed(point, unknown=f"plugin: {why}") for point, why in load_plugins().items()), *found]
    if as_json:
        print_json(found)
    elif found:
        print_table(("environment", "sandbox", "tasks", "package", "description"), map(_row, found), empty="")
    if failed:
        print_text(f"turnwise: {failed}", out=console(stderr=True))
        raise typer.Exit(1)


def _row(one: "Listed") -> tuple[str, ...]:
    """Return the cells of an environment in the table."""
    tasks = ", ".join(map(str, one.tasks.values())) if one.tasks else "not known" if one.unknown else "every seed"
    members = f"{one.id} ({one.members})" if one.members > 1 else one.id
    sandbox = one.image or ("yes" if one.sandboxed else "no")
    return members, sandbox, tasks, one.package, one.description or one.unknown


@app.command()
def check(
    env_id: EnvId,
    option: EnvOptions = None,
    sandbox: SandboxOptions = None,
    timeout: Annotated[
        float, typer.Option(min=1, help="Seconds per check; half of them per call, five times as many for all checks.")
    ] = 120.0,
    as_json: Json = False,
) -> None:
    """Check an environment's contract (determinism, bounds, reset after failure); exit 1 on a violation, or if a check
    did not finish."""
    from ...envs.authoring.check import Finding, heading
    from ...envs.authoring.check import check as check_env

    def print_heading(name: str) -> None:
        if not as_json:
            echo(heading(name), end="")

    def print_finding(finding: Finding) -> None:
        if not as_json:
            print_text(finding.ending(), start=len(heading(finding.check)))

    choose_sandboxes(sandbox)
    report = check_env(
        env_id,
        read_env_options(env_id, option),
        call_timeout_s=timeout / 2,
        check_timeout_s=timeout,
        timeout_s=5 * timeout,
        on_start=print_heading,
        on_result=print_finding,
    )
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
    seed: TaskSeed = 0,
    split: Annotated[Split, typer.Option(help="Split of the tasks.")] = "train",
    option: EnvOptions = None,
    sandbox: SandboxOptions = None,
) -> None:
    """Play one episode by hand, one action per line. The episode is not stored."""
    choose_sandboxes(sandbox)
    play_episode(env_id, seed=seed, split=split, options=read_env_options(env_id, option))


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the package, such as my_envs.")],
    kind: Annotated[
        Kind,
        typer.Option(
            help="A game of `turns`, a `dataset` of rows, files in a `sandbox`, or a `site` in a browser. A `site` "
            "needs Docker."
        ),
    ] = "turns",
    folder: Annotated[Path, typer.Option("--in", help="Parent folder of the package.")] = Path(),
    as_json: Json = False,
) -> None:
    """Create a package with one working environment and its test."""
    from ...envs.authoring.new import env_id
    from ...envs.authoring.new import new as scaffold

    root = scaffold(name, folder, kind)
    where = root if root.is_absolute() else f"./{root}"
    if as_json:
        print_json({"package": root, "env": env_id(name)})
        return
    echo(f"created {where}; next: `pip install {where}`, then `turnwise envs check {env_id(name)}`")


def play_episode(env_id: str, *, seed: int, split: str, options: dict[str, Any]) -> None:
    """Play one episode in the terminal until the episode or stdin ends.

    Raises:
        UnknownEnvironment: ``env_id`` is not registered.
        Exit: the environment failed; the reason is on stderr.
    """
    from ...envs.authoring.play import play
    from ...envs.errors import EnvironmentFailed
    from ...envs.registry import make

    images = _ImageFolder()
    env = make(env_id, **options)
    try:
        play(env, _lines(), print_lines, images, seed=seed, split=split, echo=not sys.stdin.isatty())
    except EnvironmentFailed as failed:
        print_text(f"turnwise: {env_id} {failed}", out=console(stderr=True))
        raise typer.Exit(1) from None
    finally:
        env.close()


class _ImageFolder:
    """A writer of numbered images in a new temporary folder. The folder is not removed."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.count = 0

    def __call__(self, image: "Png") -> str:
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp(prefix="turnwise-play-"))
        path = self.folder / f"{self.count}.png"
        self.count += 1
        path.write_bytes(image)
        return str(path)


def _lines() -> Iterator[str]:
    """Yield the lines of stdin; print a prompt if stdin is a terminal."""
    while True:
        if sys.stdin.isatty():
            echo("> ", end="")
        line = sys.stdin.readline()
        if not line:
            return
        yield line
