"""Save the checkpoints of a run, and delete the ones that are no longer needed.

* A version is saved once: a complete checkpoint of this run is not written again.
* Retained are the newest ``checkpoint.keep_last``, the one just written, the folder from which the engines were started
  (a restarted engine loads it again), the first one if ``checkpoint.keep_first`` is set or if it is the reference
  policy, and every checkpoint of another store's run.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..context import RunContext
from ..failpoints import failpoint
from . import checkpoint
from .backends.base import LearnerBackend


class CheckpointManager:
    """Writes, records and prunes the checkpoints of one run."""

    def __init__(
        self,
        context: RunContext,
        learner: LearnerBackend,
        run_uid: str,
        engine_model: Path,
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        """Manage the folder ``checkpoints`` of the run.

        Args:
            run_uid: separates this run from runs of other stores with the same name and folder.
            engine_model: the model folder from which the engines were started.
            state: returns the state of the run as JSON values.
        """
        self._folder = context.folder / "checkpoints"
        self._tokenizer = context.folder / "tokenizer"
        self._learner = learner
        self._store = context.store
        self._uid = run_uid
        self._component_tensors = context.algorithms.component_tensors
        self._keep_last = context.config.checkpoint.keep_last
        is_reference = context.config.needs_reference and context.config.model.reference is None
        self._keeps_first = is_reference or context.config.checkpoint.keep_first
        self._engine_model = engine_model.resolve()
        self._state = state

    async def save(self, version: int) -> None:
        """Write the learner's present state as ``version``, record it in the store, and prune old checkpoints.

        Raises:
            CheckpointFailed: the checkpoint could not be written.
        """
        path = checkpoint.checkpoint_path(self._folder, version, self._uid)
        if not await asyncio.to_thread(_is_complete, path, self._uid):
            path = await asyncio.to_thread(
                checkpoint.save,
                self._folder,
                version,
                self._learner.save,
                self._tokenizer,
                self._state(),
                run_uid=self._uid,
                component_tensors=self._component_tensors(),
            )
        await self._store.set_checkpoint(version, str(path))
        failpoint("checkpoint_committed")
        recorded = await self._store.checkpoints()
        newest = [Path(one.checkpoint) for one in recorded][-self._keep_last :]
        names = {one.name for one in (*newest, path)}
        if self._keeps_first:
            names.add(Path(recorded[0].checkpoint).name)
        if self._engine_model.parent == self._folder.resolve():
            names.add(self._engine_model.name)
        checkpoint.prune(self._folder, names, self._uid)


def _is_complete(path: Path, run_uid: str) -> bool:
    try:
        checkpoint.verify(path, run_uid)
    except checkpoint.CheckpointBroken:
        return False
    return True
