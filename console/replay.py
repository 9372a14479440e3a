"""``turnwise replay``: play stored actions again, and hold what comes against what was stored."""

from typing import Annotated

import typer

from .options import DEFAULT_STORE, Json, Store
from .output import console, jsonable, print_json
from .safe import clean


def replay(
    trajectories: Annotated[list[str], typer.Argument(metavar="ID...", help="Trajectories, by id.")],
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Re-execute trajectories' actions and compare observation hashes and rewards; exit 0 only if all match."""
    from ..agents.replay import replay as replay_one

    reports = []
    for trajectory in trajectories:
        report = replay_one(store, trajectory)
        reports.append({"id": trajectory, **jsonable(report)})
        if not as_json:
            console().print(f"{clean(trajectory)}: {clean(report.message)}", soft_wrap=True)
    if as_json:
        print_json(reports)
    if not all(report["matches"] for report in reports):
        raise typer.Exit(1)
