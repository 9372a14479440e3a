"""Checkpoints: a folder in Hugging Face format, with the optimizer and all that a resumed run needs. No pickle
anywhere.

``<run>/checkpoints/<version>/`` holds ``config.json`` and ``model.safetensors`` with the tokenizer (any tool loads
it), and under ``training/`` what a resume needs: ``optimizer.safetensors``, ``state.json``, and ``MANIFEST.json`` with
the run's uid and the hash of every file. It is written aside, synced, renamed, and only then named in the database; so
whatever dies, a checkpoint is there whole or not at all.

Stores in one folder that have a run of one name share that run's folder. The uid separates them: a checkpoint with
another uid is neither loaded, overwritten nor deleted.
"""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ...errors import TurnwiseError
from ..failpoints import failpoint

MANIFEST = "training/MANIFEST.json"
OPTIMIZER = "training/optimizer.safetensors"
STATE = "training/state.json"
TOKENIZER_SUFFIXES = frozenset({".json", ".jinja", ".txt", ".model"})


class CheckpointFailed(TurnwiseError):
    """A checkpoint could not be written."""


class CheckpointBroken(TurnwiseError):
    """A checkpoint folder is missing files, or one does not match its recorded hash."""


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def optimizer_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """AdamW's state as named tensors: ``parameter/moment``."""
    return {
        f"{name}/{key}": torch.as_tensor(value).contiguous()
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put back what ``optimizer_tensors`` gave."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, moment = key.rpartition("/")
        parameter = parameters[name]
        optimizer.state[parameter][moment] = value if moment == "step" else value.to(parameter.device)


def tokenizer_files(model: Path) -> list[Path]:
    """List the files of a model folder that are neither weights nor about weights: tokenizer, chat template,
    generation settings.

    ``*.index.json`` maps parameters to the shards of the original weights. A checkpoint has other weight files, and
    vLLM refuses a folder whose index names files that do not exist.
    """
    return [
        file
        for file in model.iterdir()
        if file.is_file()
        and file.suffix in TOKENIZER_SUFFIXES
        and file.name != "config.json"
        and not file.name.endswith(".index.json")
    ]


def owner(path: Path) -> str:
    """Return the uid of the run that wrote a checkpoint; empty where its manifest is missing or broken."""
    try:
        uid = json.loads((path / MANIFEST).read_text())["run"]
    except (OSError, ValueError, LookupError, TypeError):
        return ""
    return uid if isinstance(uid, str) else ""


def place(folder: Path, version: int, run_uid: str) -> Path:
    """Return where a version of this run is saved: ``folder/<version>``, with a part of ``run_uid`` appended where the
    checkpoint of another store's run stands there.
    """
    path = folder / str(version)
    return path if owner(path) in ("", run_uid) else folder / f"{version}-{run_uid[:8]}"


def save(
    folder: Path,
    version: int,
    model: Any,
    optimizer: Any,
    tokenizer_from: Path,
    state: Mapping[str, Any],
    *,
    run_uid: str,
) -> Path:
    """Write a version whole to its ``place``, and return that. What stands there is taken to be broken.

    Raises:
        CheckpointFailed: it could not be written; those before it are untouched.
    """
    aside, final = folder / f".writing-{version}", place(folder, version, run_uid)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        _write(aside, model, optimizer, tokenizer_from, state, run_uid)
        failpoint("checkpoint_written")
        shutil.rmtree(final, ignore_errors=True)
        aside.rename(final)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(aside, ignore_errors=True)
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error)
        why = "no room left for it; free some space and" if full else f"{error}; mend that and"
        raise CheckpointFailed(
            f"checkpoint {final} could not be written: {why} run the same command again; it goes on from the last one"
        ) from error
    failpoint("checkpoint_renamed")
    return final


def _write(
    aside: Path, model: Any, optimizer: Any, tokenizer_from: Path, state: Mapping[str, Any], run_uid: str
) -> None:
    """All files of a checkpoint, synced. Raises OSError, SafetensorError."""
    model.save_pretrained(aside)
    for file in tokenizer_files(tokenizer_from):
        if not (aside / file.name).exists():
            shutil.copy2(file, aside / file.name)
    (aside / STATE).parent.mkdir()
    save_file(optimizer_tensors(model, optimizer), aside / OPTIMIZER)
    (aside / STATE).write_text(json.dumps(state))
    files = sorted(file for file in aside.rglob("*") if file.is_file())
    manifest = {"run": run_uid, "files": {str(file.relative_to(aside)): _digest(file) for file in files}}
    (aside / MANIFEST).write_text(json.dumps(manifest, indent=1))
    for file in [*files, aside / MANIFEST, aside / "training", aside]:
        _sync(file)


def verify(path: Path, run_uid: str) -> dict[str, Any]:
    """The state of a checkpoint of this run whose files are all as written.

    Raises:
        CheckpointBroken: names the file that is missing or differs, or says that another run wrote it.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        if owner(path) != run_uid:
            raise CheckpointBroken(f"checkpoint {path}: a run of another store wrote it")
        for name, expected in manifest["files"].items():
            if _digest(path / name) != expected:
                raise CheckpointBroken(f"checkpoint {path}: {name} does not match its recorded hash")
        return read_state(path)
    except (OSError, ValueError, LookupError, AttributeError) as error:
        raise CheckpointBroken(f"checkpoint {path} is incomplete: {error}") from error


def read_state(path: Path) -> dict[str, Any]:
    """The state that ``save`` was given.

    Raises:
        OSError: ``path`` is not a checkpoint, or cannot be read.
        ValueError: the state is not JSON.
    """
    state: dict[str, Any] = json.loads((path / STATE).read_text())
    return state


def load_into(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """The optimizer's state of a verified checkpoint; its weights are loaded by ``from_pretrained``."""
    load_optimizer(model, optimizer, load_file(path / OPTIMIZER))


def prune(folder: Path, keep: set[str], run_uid: str) -> None:
    """Delete the checkpoint folders whose names are not in ``keep``, but none that another store's run wrote."""
    for path in folder.iterdir() if folder.exists() else []:
        if path.is_dir() and path.name not in keep and owner(path) in ("", run_uid):
            shutil.rmtree(path, ignore_errors=True)
