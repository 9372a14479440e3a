"""When a run's state goes to disk, and which checkpoints stay there.

A version is saved once: a folder that is there and whole is never written again. Kept are the newest few, whatever is
being written, and the folder the engines were started from, which a restarted engine loads again.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...agents.store_client import Journal
from ...store.database import Database
from ...store.queries import lists as queries
from ..failpoints import point
from . import checkpoint
from .local import Learner


class Saver:
    """Writes the checkpoints of one run."""

    def __init__(
        self,
        run: str,
        folder: Path,
        learner: Learner,
        journal: Journal,
        database: Database,
        keep: int,
        serving: Path,
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        """``serving`` is the folder the engines were started from; ``state`` gives the run's state as JSON values."""
        self._run = run
        self._folder = folder / "checkpoints"
        self._tokenizer = folder / "tokenizer"
        self._learner = learner
        self._journal = journal
        self._database = database
        self._keep = keep
        self._serving = serving.resolve()
        self._state = state

    async def save(self, version: int) -> None:
        """Write the learner as it is now as ``version``, name it in the store, and delete what is no longer kept."""
        path = self._folder / str(version)
        if not await asyncio.to_thread(_whole, path):
            learner = self._learner
            path = await asyncio.to_thread(
                checkpoint.save,
                self._folder,
                version,
                learner.model,
                learner.optimizer,
                self._tokenizer,
                self._state(),
            )
        await self._journal.commit("set_checkpoint", run=self._run, version=version, path=str(path))
        point("checkpoint_committed")
        with self._database.read() as conn:
            kept = [Path(one.checkpoint) for one in queries.checkpoints(conn, self._run)][-self._keep :]
        names = {one.name for one in (*kept, path)}
        if self._serving.parent == self._folder.resolve():
            names.add(self._serving.name)
        checkpoint.prune(self._folder, names)


def _whole(path: Path) -> bool:
    try:
        checkpoint.verify(path)
    except checkpoint.CheckpointBroken:
        return False
    return True
