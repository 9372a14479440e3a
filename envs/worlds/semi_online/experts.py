"""Write the successful episodes of experts in a store to a file, as tasks of ``turnwise/SemiOnline-v0``.

``python -m turnwise.envs.worlds.semi_online.experts FILE --run RUN``
"""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from ....base.process.user_code import NotAdmitted, admit, admit_only
from ....errors import TurnwiseError
from ....records import SUCCESS_RETURN, Source, Status, Task, Trajectory, is_success
from ....store import queries
from ....store.database import Database, open_database
from ....store.project import default_store
from ...errors import UnknownEnvironment
from ...runner.observations import instructions
from ...runner.once import call_once
from ...tasks import env_key
from .env import COMMAND, Expert, write_experts

PAGE = 500


def experts_of(
    database: Database, run: str | None = None, env_id: str | None = None, min_return: float = SUCCESS_RETURN
) -> Iterator[Expert]:
    """Yield the successful episodes of experts in the store, by age.

    Args:
        min_return: return from which a completed episode without a verdict of its environment is a success.
        run: only episodes of this run.
        env_id: only episodes of this environment.

    Raises:
        NotFound: the run is not in the store.
        StepCorrupt: stored content was altered.
        Pruned: retention removed the content of an episode.
        TurnwiseError: an observation contains images.
    """
    prompts: dict[str, str] = {}
    for name in _successes(database, run, env_id, min_return):
        with database.read() as conn:
            task = queries.group_of(conn, name).task
        key = env_key(task)
        if key not in prompts:
            prompts[key] = _instructions(task)
        last = queries.final_observation(database, name)
        yield _expert(queries.load_trajectory(database, name), task, last or "", prompts[key])


def _successes(database: Database, run: str | None, env_id: str | None, min_return: float) -> Iterator[str]:
    filters: dict[str, Any] = {
        "run": run,
        "env": env_id,
        "source": Source.EXPERT.value,
        "status": Status.COMPLETED.value,
    }
    last: str | None = None
    if run is not None:
        with database.read() as conn:
            queries.find_run(conn, run)
    while True:
        with database.read() as conn:
            rows = queries.list_trajectories(conn, descending=False, limit=PAGE, after=last, **filters)
        won = [row for row in rows if is_success(row.success, Status.COMPLETED, row.reward, min_return)]
        yield from (row.id for row in won if row.n_steps)
        if len(rows) < PAGE:
            return
        last = rows[-1].id


def _instructions(task: Task) -> str:
    """Return the system prompt of a task's environment; empty if no installed package has it."""
    try:
        return call_once(task.env_id, task.options, "instructions", instructions)
    except UnknownEnvironment as error:
        if isinstance(error.__cause__, NotAdmitted):
            raise
        return ""


def _expert(trajectory: Trajectory, task: Task, last: str, prompt: str) -> Expert:
    if any(step.images for step in trajectory.steps):
        raise TurnwiseError(
            f"trajectory {trajectory.id} has observations with images, which `turnwise/SemiOnline-v0` does not show; "
            "choose experts of an environment of text"
        )
    return Expert(
        id=trajectory.id,
        split="test" if task.split == "test" else "train",
        instructions=prompt,
        observations=(*(step.observation for step in trajectory.steps), last),
        actions=tuple(step.action for step in trajectory.steps),
    )


def main() -> None:
    """Write the file that the command line names; end with 1 and one line if nothing can be written."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write; an existing one is replaced")
    parser.add_argument("--run", help="only episodes of this run")
    parser.add_argument("--env", metavar="ID", help="only episodes of this environment")
    parser.add_argument(
        "--min-return",
        type=float,
        default=SUCCESS_RETURN,
        help="return from which an episode without a verdict of its environment is a success (%(default)g)",
    )
    parser.add_argument("--import", dest="modules", action="append", default=[], help="a module that registers the ID")
    parser.add_argument("--store", metavar="URL", help="the trajectory store: a database URL")
    given = parser.parse_args()
    admit_only(())
    try:
        for module in given.modules:
            admit(f"{module}:")
            import_module(module)
        database = open_database(given.store or default_store(), read_only=True)
        found = list(experts_of(database, given.run, given.env, given.min_return))
        database.close()
        if not found:
            raise TurnwiseError(
                f"{f'run {given.run}' if given.run else 'the store'} has no successful episode of an expert; record "
                "some with `turnwise eval --policy oracle --split train`. Without a verdict of the environment, a "
                f"success has a return of at least {given.min_return:g} (`--min-return`)"
            )
        write_experts(given.file, found)
    except (TurnwiseError, ImportError, OSError) as error:
        sys.exit(f"error: {error}")
    print(f"{len(found)} episodes written to {given.file}")


if __name__ == "__main__":
    main()
