"""``turnwise train``: run a configuration, or go on with the unfinished run of its name."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ..options import DEFAULT_STORE, Json, LogLevel, Overrides, Store


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The run's configuration.")],
    overrides: Overrides = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name, instead of the configuration's.")] = None,
    fork: Annotated[
        bool, typer.Option("--fork", help="Go on from the run of this name although its configuration differs.")
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address", envvar="RAY_ADDRESS", help="A Ray cluster to run on, instead of one started here."
        ),
    ] = None,
    allow_local_sandbox: Annotated[
        bool, typer.Option("--allow-local-sandbox", help="Let bubblewrap hold tasks that are not declared trusted.")
    ] = False,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Train; a run that was interrupted goes on from its last checkpoint by the same command."""
    from ...trainer.config.loading import load_config

    flags = {"name": name, "ray_address": ray_address}
    chosen = [*(overrides or []), *(f"{key}={json.dumps(value)}" for key, value in flags.items() if value)]
    chosen += ["sandboxes.allow_local_sandbox=true"] if allow_local_sandbox else []
    start(load_config(config, chosen), store=store, fork=fork, as_json=as_json)


def start(config: object, *, store: str, fork: bool, as_json: bool) -> None:
    """Run a checked configuration under the live view; with ``as_json`` the result is the last line of stdout."""
    from ...trainer.config.schema import RunConfig
    from ...trainer.run.run import train as run
    from ..terminal.live import LiveView
    from ..terminal.output import print_facts, print_json, result_facts

    assert isinstance(config, RunConfig)  # noqa: S101 - typed as object to keep the configuration's import lazy
    with LiveView(config.name, stderr=as_json) as view:
        result = run(config, store_url=store, fork=fork, on_event=view)
    if as_json:
        print_json(result.json(), indent=None)
    else:
        print_facts(result_facts(result.json()))
