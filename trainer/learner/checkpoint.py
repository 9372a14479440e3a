"""Save and load checkpoints: folders in Hugging Face format with the optimizer and the state of a run. No pickle.

``<run>/checkpoints/<version>/`` contains:

* ``config.json``, ``model.safetensors`` and the tokenizer, which any tool of the field loads; with `learner.lora`,
  ``adapter_config.json`` and ``adapter_model.safetensors`` in PEFT's format instead of ``model.safetensors``;
* ``training/optimizer/`` (``backends.state_files``) and ``training/state.json``, which a resumed run needs, and
  ``training/components.safetensors`` if components of the run keep tensors;
* ``training/MANIFEST.json``: the run's uid and the hash of every file.

A checkpoint is complete or absent, even if a process dies: it is written to a temporary folder, synced, renamed, and
only then recorded in the database.

Two stores in one folder with runs of the same name share the folder of that run. The uid separates the runs: a
checkpoint with a different uid is neither loaded, overwritten nor deleted.
"""

import asyncio
import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ...agents.model_folder import tokenizer_files
from ...errors import TurnwiseError
from ...store import queries
from ...store.content.folders import sync
from ..context import RunContext
from ..failpoints import failpoint
from .backends.base import LearnerBackend

MANIFEST = "training/MANIFEST.json"
STATE = "training/state.json"
COMPONENTS = "training/components.safetensors"


class CheckpointFailed(TurnwiseError):
    """A checkpoint could not be written."""


class CheckpointBroken(TurnwiseError):
    """A checkpoint misses a file, contains a file that does not match its hash, or belongs to another store's run."""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def owner_uid(path: Path) -> str:
    """Return the uid of the run that wrote a checkpoint, or an empty string if its manifest is missing or broken."""
    try:
        uid = json.loads((path / MANIFEST).read_text())["run"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return uid if isinstance(uid, str) else ""


def checkpoint_path(folder: Path, version: int, run_uid: str) -> Path:
    """Return the path of a version: ``folder/<version>``.

    If another store's run has its checkpoint there, the path ends in the last characters of ``run_uid``, a UUIDv7: its
    first are a clock.
    """
    path = folder / str(version)
    return path if owner_uid(path) in ("", run_uid) else folder / f"{version}-{run_uid[-8:]}"


def save(
    folder: Path,
    version: int,
    save_learner: Callable[[Path], None],
    tokenizer_from: Path,
    state: Mapping[str, Any],
    *,
    run_uid: str,
    component_tensors: Mapping[str, torch.Tensor] | None = None,
) -> Path:
    """Write the checkpoint of a version and return its path. An existing folder at that path is replaced.

    Args:
        folder: the folder of all checkpoints of the run.
        save_learner: writes the model and the optimizer's state into a folder (``LearnerBackend.save``).
        tokenizer_from: a model folder whose tokenizer files are copied.
        state: JSON values, returned by ``verify`` and ``read_state``.
        component_tensors: returned by ``read_component_tensors``.

    Raises:
        CheckpointFailed: the checkpoint could not be written; earlier checkpoints are unchanged.
    """
    temporary, final = folder / f".writing-{version}", checkpoint_path(folder, version, run_uid)
    if not folder.parent.is_dir():
        raise CheckpointFailed(
            f"checkpoint `{final}` could not be written: the folder of the run, `{folder.parent}`, was moved, deleted "
            "or unmounted; bring it back and run the same command again; if it is lost, start a run of another name "
            "with `--name`"
        )
    try:
        folder.mkdir(exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        _write(temporary, save_learner, tokenizer_from, state, component_tensors or {}, run_uid)
        failpoint("checkpoint_written")
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)
        sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        why = "there is no room left; free some space" if full else f"{error}; fix this"
        raise CheckpointFailed(
            f"checkpoint `{final}` could not be written: {why} and rerun the same command; it resumes from the "
            "previous checkpoint"
        ) from error
    failpoint("checkpoint_renamed")
    return final


def _write(
    folder: Path,
    save_learner: Callable[[Path], None],
    tokenizer_from: Path,
    state: Mapping[str, Any],
    component_tensors: Mapping[str, torch.Tensor],
    run_uid: str,
) -> None:
    """Write and sync all files of a checkpoint.

    Raises:
        OSError, SafetensorError: a file could not be written.
    """
    folder.mkdir()
    save_learner(folder)
    for file in tokenizer_files(tokenizer_from):
        shutil.copy2(file, folder / file.name)
    (folder / STATE).parent.mkdir(exist_ok=True)
    if component_tensors:
        save_file({name: value.contiguous() for name, value in component_tensors.items()}, folder / COMPONENTS)
    (folder / STATE).write_text(json.dumps(state))
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    manifest = {"run": run_uid, "files": {str(file.relative_to(folder)): _digest(file) for file in files}}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    for path in [*files, folder / MANIFEST, *folders, folder]:
        sync(path)


def verify(path: Path, run_uid: str) -> dict[str, Any]:
    """Return the state of a checkpoint after checking that this run wrote it and that every file matches its hash.

    Raises:
        CheckpointBroken: another store's run wrote the checkpoint, or a file is missing or changed; the message names
            the file.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        if owner_uid(path) != run_uid:
            raise CheckpointBroken(f"checkpoint `{path}`: a run of another store wrote it")
        for name, expected in manifest["files"].items():
            if _digest(path / name) != expected:
                raise CheckpointBroken(f"checkpoint `{path}`: `{name}` does not match its recorded hash")
        return read_state(path)
    except (OSError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise CheckpointBroken(f"checkpoint `{path}` is incomplete: {error}") from error


def read_state(path: Path) -> dict[str, Any]:
    """Return the state that was passed to ``save``, without verifying the checkpoint.

    Raises:
        OSError: ``path`` is not a checkpoint, or its state cannot be read.
        ValueError: the state is not JSON.
    """
    state: dict[str, Any] = json.loads((path / STATE).read_text())
    return state


def read_component_tensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the component tensors that were passed to ``save``, on the CPU, from a verified checkpoint."""
    return load_file(path / COMPONENTS) if (path / COMPONENTS).exists() else {}


def prune(folder: Path, keep: set[str], run_uid: str) -> None:
    """Delete the checkpoints of this run and incomplete ones, except those whose names are in ``keep``."""
    for path in folder.iterdir() if folder.exists() else []:
        if path.is_dir() and path.name not in keep and owner_uid(path) in ("", run_uid):
            shutil.rmtree(path, ignore_errors=True)


class CheckpointManager:
    """Writes, records and prunes the checkpoints of one run.

    * A version is saved once: a complete checkpoint of this run is not written again.
    * Retained are the newest ``checkpoint.keep_last``, the best by held-out success, the one just written, the folder
      from which the engines were started (a restarted engine loads it again), the first one if
      ``checkpoint.keep_first`` is set or if it is the reference policy, and every checkpoint of another store's run.
    """

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
        path = checkpoint_path(self._folder, version, self._uid)
        if not await asyncio.to_thread(_is_complete, path, self._uid):
            path = await asyncio.to_thread(
                save,
                self._folder,
                version,
                self._learner.save,
                self._tokenizer,
                self._state(),
                run_uid=self._uid,
                component_tensors=self._component_tensors(),
            )
        await self._store.set_checkpoint(version, f"{self._folder.name}/{path.name}")
        failpoint("checkpoint_committed")
        recorded = await self._store.read(queries.checkpoints)
        newest = [Path(one.checkpoint) for one in recorded][-self._keep_last :]
        names = {one.name for one in (*newest, path)}
        if (best := await self._store.read(queries.best_checkpoint)) is not None:
            names.add(Path(best.path).name)
        if self._keeps_first:
            names.add(Path(recorded[0].checkpoint).name)
        if self._engine_model.parent == self._folder.resolve():
            names.add(self._engine_model.name)
        prune(self._folder, names, self._uid)


def _is_complete(path: Path, run_uid: str) -> bool:
    try:
        verify(path, run_uid)
    except CheckpointBroken:
        return False
    return True
