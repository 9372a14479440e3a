"""When a run's state goes to disk, and which checkpoints stay there.

A version is saved once: a folder of this run that is there and whole is never written again. Kept are the newest few,
the one just written, the folder the engines were started from, which a restarted engine loads again, and every
checkpoint of another store's run.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..context import RunContext
from ..failpoints import failpoint
from . import checkpoint
from .local import Learner


class Saver:
    """Writes the checkpoints of one run."""

    def __init__(
        self,
        context: RunContext,
        learner: Learner,
        run_uid: str,
        serving: Path,
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        """``serving`` is the folder the engines were started from; ``state`` gives the run's state as JSON values."""
        self._folder = context.folder / "checkpoints"
        self._tokenizer = context.folder / "tokenizer"
        self._learner = learner
        self._store = context.store
        self._uid = run_uid
        self._keep = context.config.checkpoint.keep_last
        self._serving = serving.resolve()
        self._state = state

    async def save(self, version: int) -> None:
        """Write the learner as it is now as ``version``, name it in the store, and delete what is no longer kept."""
        path = checkpoint.place(self._folder, version, self._uid)
        if not await asyncio.to_thread(_whole, path, self._uid):
            learner = self._learner
            path = await asyncio.to_thread(
                checkpoint.save,
                self._folder,
                version,
                learner.model,
                learner.optimizer,
                self._tokenizer,
                self._state(),
                run_uid=self._uid,
            )
        await self._store.set_checkpoint(version, str(path))
        failpoint("checkpoint_committed")
        known = await self._store.checkpoints()
        kept = [Path(one.checkpoint) for one in known][-self._keep :]
        names = {one.name for one in (*kept, path)}
        if self._serving.parent == self._folder.resolve():
            names.add(self._serving.name)
        checkpoint.prune(self._folder, names, self._uid)


def _whole(path: Path, run_uid: str) -> bool:
    try:
        checkpoint.verify(path, run_uid)
    except checkpoint.CheckpointBroken:
        return False
    return True
