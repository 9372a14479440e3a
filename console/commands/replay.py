"""``turnwise trajectories replay``: execute stored actions again and compare the results with the stored ones."""

import asyncio
import os
import re
from collections import Counter
from contextlib import aclosing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...store.project import DEFAULT_STORE
from ..options import Imports, Json, SandboxOptions, Store, complete_run, open_store
from ..terminal.output import GUTTER, Estimate, console, print_json, print_text
from ..terminal.sanitize import sanitize
from .envs import choose_sandboxes
from .show import ImagesNotWritten

if TYPE_CHECKING:
    from ...agents.reexecution.reexecute import Keep, Report
    from ...store.database import Database


class NothingToReplay(TurnwiseError):
    """No trajectory was given, or the run has no trajectory that can be executed again."""


def replay(
    trajectories: Annotated[list[str] | None, typer.Argument(metavar="ID", help="IDs of trajectories.")] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Replay a sample of this run.", autocompletion=complete_run)
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="With --run: size of the random sample.")] = 10,
    whole: Annotated[bool, typer.Option("--all", help="With --run: replay every trajectory of it.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    parallel: Annotated[
        int | None,
        typer.Option(
            "--parallel", min=1, max=256, help="Trajectories executed at the same time. Default: the number of cores."
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            metavar="FOLDER",
            help="Write the screenshots of the re-execution to a folder per trajectory in this one.",
        ),
    ] = None,
    sandbox: SandboxOptions = None,
    modules: Imports = None,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Execute stored actions again and compare every observation and reward; exit 1 if one differs.

    Of the first step that differs, the report shows the observation as a diff: stored against now.
    """
    ids = trajectories or []
    if not ids and run is None:
        raise NothingToReplay("name trajectories by their ids, or a run: turnwise trajectories replay --run NAME")
    choose_sandboxes(sandbox)
    pictures = None if images is None else _Pictures(images)
    with open_store(store) as database:
        if run is not None:
            ids = [*ids, *_of_run(database, run, None if whole else sample, seed)]
        reports = asyncio.run(_replayed(database, ids, parallel or os.cpu_count() or 1, pictures, quiet=as_json))
    matching = sum(report.matches for report in reports)
    executed = sum(not report.missing for report in reports)
    if as_json:
        print_json(reports)
    elif len(reports) > 1:
        console().print(f"{matching} of {executed} match")
    if not as_json:
        for missing, count in Counter(report.missing for report in reports if report.missing).items():
            print_text(f"turnwise: {count} not re-executed: {missing}", out=console(stderr=True))
    if pictures is not None:
        message = f"screenshots written to {sanitize(str(images))}: {pictures.count}"
        console(stderr=True).print(message if pictures.count else "no environment has a screenshot", soft_wrap=True)
    if matching < len(reports):
        raise typer.Exit(1)


class _Pictures:
    """Writes screenshots as ``FOLDER/TRAJECTORY/TURN.png``; counts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.count = 0

    def __call__(self, trajectory: str, turns: int, image: bytes) -> None:
        folder = self._folder / re.sub(r"[^\w:-]", "_", trajectory)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{turns:03}.png").write_bytes(image)
        except OSError as error:
            raise ImagesNotWritten(f"--images {self._folder}: {error}") from error
        self.count += 1


async def _replayed(
    database: "Database", ids: list[str], parallel: int, keep: "Keep | None", *, quiet: bool
) -> "list[Report]":
    from ...agents.reexecution.reexecute import reexecute_many

    reports: list[Report] = []
    progress = Estimate("trajectories executed again")
    async with aclosing(reexecute_many(database, ids, parallel, keep)) as replayed:
        async for report in replayed:
            reports.append(report)
            if not quiet and not report.missing:
                _print(report)
            progress(len(reports), len(ids))
    return reports


def _print(report: "Report") -> None:
    print_text(f"{sanitize(report.id)}: {report.message}")
    if report.diff:
        print_text(GUTTER + report.diff)


def _of_run(database: "Database", run: str, sample: int | None, seed: int) -> list[str]:
    """Return a random sample of the run's scored trajectories with at least one step in deterministic environments.

    All of them if ``sample`` is None.
    """
    from ...store import queries
    from ...store.queries.lists import draw_replayable, replayable

    stream = Random(seed)  # noqa: S311 - a reproducible sample, not a secret
    with database.read() as conn:
        queries.find_run(conn, run)
        ids = replayable(conn, run) if sample is None else draw_replayable(conn, run, sample, stream)
    if not ids:
        raise NothingToReplay(
            f"run {run} has nothing to replay: no trajectory with a step was completed or truncated in an environment "
            "that declares itself deterministic"
        )
    return ids
