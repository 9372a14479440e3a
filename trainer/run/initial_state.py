"""The initial state of a run: a new tiny model, a given model, or a checkpoint of this run or of its parent."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...agents.model_folder import base_model, is_adapter, reads_images, tokenizer_files
from ...agents.tiny_model import new_model
from ...agents.tiny_vision_model import new_vision_model
from ...errors import TurnwiseError
from ...store import queries
from ...store.database import Database
from ..config.schema import RunConfig
from ..learner import checkpoint
from ..learner.model.loading import merge_adapter
from ..preflight.check import check
from ..preflight.refusal import Command, Stage, Subject, refuse
from ..warmup.vocabulary import any_images, closed_vocabulary
from .identity import RunIdentity


@dataclass(frozen=True, slots=True)
class InitialState:
    """The weights that a run begins or resumes with, and the state that belongs to them."""

    model: Path
    """Folder of the model and its tokenizer; the engines load it."""
    is_new: bool = False
    """Whether the model is a new one with random weights."""
    is_fork: bool = False
    """Whether the model comes from another run's checkpoint."""
    parent_version: int | None = None
    """The version of that checkpoint."""
    state: dict[str, Any] = field(default_factory=dict)
    """State of the checkpoint that the run resumes from (``RunState.checkpoint_json``); empty at a run's beginning."""
    notes: tuple[str, ...] = ()
    """Lines for the user interface."""

    @property
    def resumes(self) -> bool:
        """Whether ``model`` is a checkpoint of this run, with the learner's state."""
        return bool(self.state)

    @property
    def command(self) -> Command:
        """The command that the preflight checks while the actors start."""
        return Command.RESUME if self.resumes else Command.FORK if self.is_fork else Command.TRAIN

    @property
    def version(self) -> int | None:
        """Return the version of the checkpoint; None at a run's beginning."""
        return self.state["version"] if self.state else None

    @property
    def update(self) -> int:
        """Return the updates done by the checkpoint; 0 at a run's beginning."""
        return int(self.state["update"]) if self.state else 0


def initial_state(config: RunConfig, identity: RunIdentity, database: Database, folder: Path) -> InitialState:
    """Find the weights to begin or resume with, or make a new model in ``folder``.

    A run that resumes takes its newest intact checkpoint. A fork without a checkpoint takes that of its parent, even
    if an earlier process of the fork was killed before its first checkpoint.

    Raises:
        TurnwiseError: the model cannot be found or made, the learner cannot train it, the engines cannot serve it, the
            run to resume or fork has no intact checkpoint, or `learner.lora` is to adapt random weights.
    """
    notes: list[str] = []
    state: dict[str, Any] = {}
    parent_version: int | None = None
    own = _newest_checkpoint(database, identity.name, notes) if identity.resumes else None
    is_fork = own is None and identity.parent is not None
    if own is not None:
        model, state = own
    elif identity.parent is not None:
        model, parent_state = _parent_checkpoint(database, identity.parent, identity.parent_version, notes)
        parent_version = parent_state["version"]
    else:
        model = config.model.folder() or _make_model(config, folder / "model")
    refuse(check(Subject(config, identity.command, database, model), Stage.WEIGHTS))
    if is_fork:
        model = _own_model(model, folder / "model")
    _copy_tokenizer(model, folder / "tokenizer")
    is_new = own is None and not is_fork and config.model.path is None
    return InitialState(model, is_new, is_fork, parent_version, state, tuple(notes))


def _parent_checkpoint(
    database: Database, parent: str, version: int | None, notes: list[str]
) -> tuple[Path, dict[str, Any]]:
    """Return the folder and the state of a version's checkpoint, or of the newest intact one, and note its update.

    Raises:
        TurnwiseError: the checkpoint is missing or broken.
    """
    if version is None:
        found = _newest_checkpoint(database, parent, notes)
        if found is None:
            raise TurnwiseError(f"run `{parent}` has no intact checkpoint to fork from")
    else:
        with database.read() as conn:
            folder = Path(queries.versions(conn, parent)[version].checkpoint)
            uid = queries.find_run(conn, parent).uid.hex
        try:
            found = folder, checkpoint.verify(folder, uid)
        except checkpoint.CheckpointBroken as error:
            raise TurnwiseError(
                f"{error}; fork another update of run `{parent}`: `turnwise runs fork RUN@UPDATE`"
            ) from error
    notes.append(f"forked run {parent} from its update {found[1]['update']} (version {found[1]['version']})")
    return found


def _newest_checkpoint(database: Database, run: str, notes: list[str]) -> tuple[Path, dict[str, Any]] | None:
    """Return the folder and the state of the newest intact checkpoint; None if the run never saved one.

    Every broken checkpoint adds a note.

    Raises:
        TurnwiseError: the run has checkpoints, but none is intact.
    """
    with database.read() as conn:
        versions = list(queries.checkpoints(conn, run))
        uid = queries.find_run(conn, run).uid.hex
    broken: list[str] = []
    for version in reversed(versions):
        path = Path(version.checkpoint)
        try:
            state = checkpoint.verify(path, uid)
        except checkpoint.CheckpointBroken as error:
            broken.append(str(error))
        else:
            notes += [f"{one}; falling back to the checkpoint before it" for one in broken]
            return path, state
    if versions:
        raise TurnwiseError(
            f"run `{run}` has no intact checkpoint among {len(versions)}: {broken[0]}; if the folder of the run was "
            "moved, name the one that holds it by `--runs`; else restore it from a copy, or start a run of another "
            "name with `--name`"
        )
    return None


def _make_model(config: RunConfig, path: Path) -> Path:
    """Make a tiny model whose vocabulary is that of the run's environments.

    Raises:
        TurnwiseError: the run trains a LoRA adapter, or an environment shows images and the settings are not a
            Qwen3-VL's.
    """
    if config.learner.lora is not None:
        raise TurnwiseError(
            "`learner.lora` adapts trained weights, and without `model.path` this run makes a model with random ones: "
            "set `model.path`, or train without `learner.lora` first and continue with `turnwise runs fork`"
        )
    if (path / "config.json").exists():
        shutil.rmtree(path)
    new, words = config.model.new, closed_vocabulary(config.environments)
    sizes: Any = {"hidden": new.hidden, "layers": new.layers, "heads": new.heads}
    common: Any = {"seed": config.seed, "max_context": config.max_context}
    if any_images(config.environments):
        if new.architecture != "qwen3" or not new.tie_embeddings:
            raise TurnwiseError(
                "a new model that reads images is a Qwen3-VL with one matrix for input and output embeddings: leave "
                "`model.new.architecture` and `model.new.tie_embeddings` out"
            )
        return new_vision_model(path, words, patch_size=new.patch_size, **sizes, **common)
    return new_model(path, words, arch=new.architecture, tie=new.tie_embeddings, **sizes, **common)


def _own_model(checkpoint_folder: Path, folder: Path) -> Path:
    """Put the model of another run's checkpoint into this run's folder: the other run may delete its checkpoint.

    The files are linked; a LoRA adapter is merged into its model.
    """
    shutil.rmtree(folder, ignore_errors=True)
    if is_adapter(checkpoint_folder):
        merge_adapter(checkpoint_folder, folder)
        return folder
    folder.mkdir(parents=True)
    for file in checkpoint_folder.iterdir():
        if file.is_file():
            try:
                (folder / file.name).hardlink_to(file)
            except OSError:
                shutil.copy2(file, folder / file.name)
    return folder


def _copy_tokenizer(model: Path, folder: Path) -> None:
    """Copy the tokenizer's files, so that every checkpoint carries them even if the model's folder is deleted.

    Of a model that reads images, the configuration too: it names the token of an image.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = tokenizer_files(model)
    if reads_images(model):
        files.append(base_model(model) / "config.json")
    for file in files:
        shutil.copy2(file, folder / file.name)
