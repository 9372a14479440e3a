"""A small store for the first look at the viewer: episodes that this machine plays now, and no recording.

The random policy and the oracle play the same held-out tasks of environments without sandboxes, and the random policy
continues an episode of the oracle. No model plays and nothing is trained, so there is no curve of a training run.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from ..store import queries
from ..store.database import open_database
from ..store.maintenance.search_index import update_index
from ..trainer.evaluation.branch import branch
from ..trainer.evaluation.tasks import evaluate

ENVIRONMENTS = ("turnwise/TextSite-v0", "turnwise/GuessNumber-v0", "turnwise/TableLookup-v0", "turnwise/Calculator-v0")
TASKS = 16
SAMPLES = 4
PREFIX = "turnwise-demo-"
NOTICE = (
    "A demonstration that this machine has just played: the random policy and the oracle on the same tasks, and a "
    "branch. No model was trained, so no run has curves. Ctrl-C ends the viewer and deletes the store."
)


@contextmanager
def demo_store() -> Iterator[str]:
    """Play the episodes, and yield the URL of their store, which is deleted at the end of the block."""
    _remove_left()
    with TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        url = f"sqlite:///{Path(folder).resolve()}/turnwise.db"
        for policy in ("oracle", "random"):
            evaluate(policy, ENVIRONMENTS, tasks=TASKS, samples=SAMPLES, store_url=url, name=f"demo-{policy}")
        database = open_database(url)
        try:
            with database.read() as conn:
                rows = queries.list_trajectories(conn, run="demo-oracle", env=ENVIRONMENTS[0])
            longest = max(rows, key=lambda row: row.n_steps)
            branch(database, longest.id, longest.n_steps // 2, "random", episodes=SAMPLES)
            update_index(database)
        finally:
            database.close()
        yield url


def _remove_left() -> None:
    """Remove the stores of demonstrations that were killed."""
    for path in Path(gettempdir()).glob(f"{PREFIX}*-*"):
        process = path.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError):
            is_own = path.lstat().st_uid == os.getuid()
            if is_own and process.isdecimal() and not Path("/proc", process).exists():
                shutil.rmtree(path)
