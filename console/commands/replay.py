"""``turnwise replay``: execute stored actions again and compare the results with the stored ones."""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...records import SCORED_STATUSES
from ..options import DEFAULT_STORE, Json, Store
from ..stores import open_store
from ..terminal.output import console, print_json, print_text
from ..terminal.sanitize import sanitize

if TYPE_CHECKING:
    from ...store.database import Database

MAX_CANDIDATES = 10_000
"""Maximum number of trajectories from which a sample is drawn."""


class NothingToReplay(TurnwiseError):
    """No trajectory was given, or the run has no trajectory that can be executed again."""


def replay(
    trajectories: Annotated[list[str] | None, typer.Argument(metavar="ID", help="IDs of trajectories.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Replay a sample of this run.")] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="With --run: size of the random sample.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Execute stored actions again and compare every observation and reward; exit 1 if one differs."""
    from ...agents.reexecution import replay_stored

    ids = trajectories or []
    if not ids and run is None:
        raise NothingToReplay("name trajectories by their ids, or a run: turnwise replay --run NAME")
    reports = []
    with open_store(store) as database:
        if run is not None:
            ids = [*ids, *_draw_sample(database, run, sample, seed)]
        for trajectory in ids:
            report = asyncio.run(replay_stored(database, trajectory))
            reports.append(report)
            if not as_json:
                print_text(f"{sanitize(trajectory)}: {report.message}")
    matching = sum(report.matches for report in reports)
    if as_json:
        print_json(reports)
    elif len(reports) > 1:
        console().print(f"{matching} of {len(reports)} match")
    if matching < len(reports):
        raise typer.Exit(1)


def _draw_sample(database: "Database", run: str, sample: int, seed: int) -> list[str]:
    """Return a random sample of the run's scored trajectories with at least one step in deterministic environments."""
    from ...store import queries

    with database.read() as conn:
        queries.run_row(conn, run)
        statuses = [status.value for status in SCORED_STATUSES]
        rows = queries.list_trajectories(conn, run=run, status=statuses, deterministic=True, limit=MAX_CANDIDATES)
    candidates = [row["id"] for row in rows if row["n_steps"]]
    if not candidates:
        raise NothingToReplay(
            f"run {run} has nothing to replay: no trajectory with a step was completed or truncated in an environment "
            "that declares itself deterministic"
        )
    return Random(seed).sample(candidates, min(sample, len(candidates)))  # noqa: S311 - a reproducible sample, not a secret
