"""``turnwise train``: start the run of a configuration, or resume its unfinished run."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...store.project import DEFAULT_STORE
from ..options import Json, LogLevel, Overrides, Store

KINDS = {"Note": "note", "UpdateDone": "update", "EvalResult": "evaluation"}
"""The ``event`` of each JSON line of ``train --json``, by the class of the event; the last line is the ``result``."""

if TYPE_CHECKING:
    from ...trainer.run.identity import Origin
    from ...trainer.telemetry.events import Event


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Configuration of the run.")],
    overrides: Overrides = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run, not of a finished one; overrides the configuration.")
    ] = None,
    fork: Annotated[
        bool, typer.Option("--fork", help="If the run exists with another configuration, fork it.")
    ] = False,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address", envvar="RAY_ADDRESS", help="Address of an existing Ray cluster; default: start one here."
        ),
    ] = None,
    allow_local_sandbox: Annotated[
        bool, typer.Option("--allow-local-sandbox", help="Allow bubblewrap for tasks that are not declared trusted.")
    ] = False,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
    log_level: LogLevel = None,
) -> None:
    """Train a policy. The same command resumes an interrupted run from its last checkpoint."""
    from ...trainer.config.loading import load_config

    flags = {"name": name, "ray_address": ray_address or None}  # an empty RAY_ADDRESS is none
    given = [f"{key}={json.dumps(value)}" for key, value in flags.items() if value is not None]
    assignments = [*(overrides or []), *given]
    assignments += ["sandboxes.allow_local_sandbox=true"] if allow_local_sandbox else []
    start(load_config(config, assignments), store=store, fork=fork, numbers=name is None, as_json=as_json)


def start(config: object, *, store: str, fork: "bool | Origin", numbers: bool = True, as_json: bool) -> None:
    """Run a checked configuration under the live view.

    With ``as_json``, stdout has one JSON object per event, and the result last; each names its kind as ``event``.
    """
    from ...trainer.config.schema import RunConfig
    from ...trainer.run.run import train as run
    from ..terminal.live import LiveView
    from ..terminal.output import print_fields, print_json, result_fields

    assert isinstance(config, RunConfig)  # noqa: S101 - typed as object to keep the configuration's import lazy
    with LiveView(config.name, stderr=as_json) as view:

        def report(event: "Event") -> None:
            if as_json:
                print_json({"event": KINDS[type(event).__name__], **asdict(event)}, indent=None)
            view(event)

        result = run(config, store_url=store, fork=fork, numbers=numbers, report=report)
    if as_json:
        print_json({"event": "result", **result.json()}, indent=None)
    else:
        print_fields(result_fields(result.json()))
