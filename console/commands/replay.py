"""``turnwise replay``: play stored actions again, and hold what comes against what was stored."""

import asyncio
from random import Random
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import TurnwiseError
from ...records import SCORED_STATUSES
from ..opening import opened
from ..options import DEFAULT_STORE, Json, Store
from ..terminal.output import GUTTER, console, print_json
from ..terminal.sanitize import clean, indented

if TYPE_CHECKING:
    from ...store.database import Database

NEWEST = 10_000
"""A sample is drawn from so many trajectories of the run at most."""


class NothingToReplay(TurnwiseError):
    """No trajectory was named, or the run has none that can be executed again."""


def replay(
    trajectories: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Trajectories, by id.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Instead of ids: of this run.")] = None,
    sample: Annotated[int, typer.Option("--sample", min=1, help="With --run: so many, drawn at random.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Of that draw.")] = 0,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Execute stored actions again and compare every observation and reward; exit 0 only if all are the same."""
    from ...agents.reexecution import replay_stored

    chosen = trajectories or []
    if not chosen and run is None:
        raise NothingToReplay("name trajectories by their ids, or a run: turnwise replay --run NAME")
    reports = []
    with opened(store) as database:
        if run is not None:
            chosen = [*chosen, *_drawn(database, run, sample, seed)]
        for trajectory in chosen:
            report = asyncio.run(replay_stored(database, trajectory))
            reports.append(report)
            if not as_json:
                console().print(f"{clean(trajectory)}: {indented(report.message, GUTTER)}", soft_wrap=True)
    matching = sum(report.matches for report in reports)
    if as_json:
        print_json(reports)
    elif len(reports) > 1:
        console().print(f"{matching} of {len(reports)} match")
    if matching < len(reports):
        raise typer.Exit(1)


def _drawn(database: "Database", run: str, sample: int, seed: int) -> list[str]:
    """Trajectories of a run with a step and an outcome, in environments that say they are deterministic."""
    from ...store import queries

    with database.read() as conn:
        queries.run_row(conn, run)
        statuses = [status.value for status in SCORED_STATUSES]
        rows = queries.list_trajectories(conn, run=run, status=statuses, deterministic=True, limit=NEWEST)
    played = [row["id"] for row in rows if row["n_steps"]]
    if not played:
        raise NothingToReplay(
            f"run {run} has nothing to replay: no trajectory with a step was completed or truncated in an environment "
            "that declares itself deterministic"
        )
    return Random(seed).sample(played, min(sample, len(played)))  # noqa: S311 - a draw to be repeated, not a secret
