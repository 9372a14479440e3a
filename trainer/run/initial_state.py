"""Where a run starts: a new tiny model, a given one, or its newest whole checkpoint."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...agents.tiny_model import new_model
from ...agents.tokens.conversation import Chat
from ...agents.weights.shm_writer import WeightWriter
from ...envs.registry import make
from ...errors import TurnwiseError
from ...store import queries
from ..config.schema import RunConfig
from ..learner import checkpoint
from ..learner.packed_attention import refuse_unsupported
from ..telemetry.events import Note
from ..warmup.sft import warm_up

if TYPE_CHECKING:
    from ..learner.local import Learner
    from .run import Run


@dataclass(frozen=True, slots=True)
class Origin:
    """Weights to start from, and how to get from them to a learner."""

    model: Path
    make_learner: Callable[[], Learner]
    make_weights: Callable[[Learner], WeightWriter]
    warm_up: Callable[[Learner, Callable[[], bool]], float]
    warms_up: bool
    version: int | None = None
    """The version of the checkpoint; None at a run's beginning."""
    update: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


async def begin(run: Run) -> Origin:
    """Find or make the weights.

    Raises:
        TurnwiseError: the model cannot be found or made, or no checkpoint of the run to resume is whole.
    """
    return await asyncio.to_thread(_begin, run)


def _begin(run: Run) -> Origin:
    config = run.config
    notes: list[str] = []
    state: dict[str, Any] = {}
    parent = run.identity.parent
    own = _newest(run, run.name, notes) if run.identity.resumes else None
    # A fork that was killed before its first checkpoint starts from its parent again.
    found = own or (_newest(run, parent, notes) if parent else None)
    resumes = own is not None
    if found is not None:
        model, state = found
    elif parent:
        raise TurnwiseError(f"run {parent!r} has no whole checkpoint to fork from")
    else:
        model = Path(config.model.path) if config.model.path else _new(config, run.folder / "model")
    if not (model / "config.json").exists():
        raise TurnwiseError(f"model.path: {model} is not a Hugging Face model folder (no config.json)")
    refuse_unsupported(model)
    if found is not None and not resumes:
        model = _borrowed(model, run.folder / "model")
    _keep_tokenizer(model, run.folder / "tokenizer")
    is_new = config.model.path is None and found is None

    def make_learner() -> Learner:
        from ..learner.local import Learner

        learner = Learner(model, config.learner, config.loss, config.proximal, config.rollout.temperature)
        if resumes:
            checkpoint.load_into(model, learner.model, learner.optimizer)
        return learner

    def warm(learner: Learner, stopped: Callable[[], bool]) -> float:
        horizon = config.horizon.longest()
        timeout_s = max(config.rollout.reset_timeout_s, config.rollout.step_timeout_s)
        return warm_up(
            learner.model,
            Chat(model),
            config.environments,
            horizon,
            config.sft_warmup,
            config.seed,
            timeout_s,
            lambda text: run.tell(Note(text)),
            stopped,
        )

    return Origin(
        model=model,
        make_learner=make_learner,
        make_weights=lambda learner: WeightWriter(learner.named_parameters()),
        warm_up=warm,
        warms_up=is_new and config.sft_warmup.steps > 0,
        version=state["version"] if resumes else None,
        update=state["update"] if resumes else 0,
        state=state if resumes else {},
        notes=tuple(notes),
    )


def _newest(run: Run, source: str, notes: list[str]) -> tuple[Path, dict[str, Any]] | None:
    with run.database.read() as conn:
        known = list(queries.checkpoints(conn, source))
        uid = queries.run_uid(conn, source)
    for version in reversed(known):
        path = Path(version.checkpoint)
        try:
            return path, checkpoint.verify(path, uid)
        except checkpoint.CheckpointBroken as error:
            notes.append(f"{error}; falling back to the one before")
    if known:
        raise TurnwiseError(f"none of the {len(known)} checkpoints of run {source!r} is whole: {notes[-1]}")
    return None


def _new(config: RunConfig, path: Path) -> Path:
    if (path / "config.json").exists():
        shutil.rmtree(path)
    words: dict[str, None] = {}
    for one in config.environments:
        env = make(one.id, **one.options)
        try:
            words.update(dict.fromkeys(env.vocabulary()))
        except NotImplementedError as error:
            raise TurnwiseError(f"a new model needs a closed vocabulary, and {error}; set model.path instead") from None
        finally:
            env.close()
    new = config.model.new
    return Path(
        new_model(
            path,
            list(words),
            hidden=new.hidden,
            layers=new.layers,
            heads=new.heads,
            seed=config.seed,
            arch=new.architecture,
            tie=new.tie_embeddings,
            max_context=config.max_context,
        )
    )


def _borrowed(checkpoint_folder: Path, folder: Path) -> Path:
    """The model of another run's checkpoint under this run's folder, by hard links: the other run may prune its own."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in checkpoint_folder.iterdir():
        if file.is_file():
            try:
                (folder / file.name).hardlink_to(file)
            except OSError:
                shutil.copy2(file, folder / file.name)
    return folder


def _keep_tokenizer(model: Path, folder: Path) -> None:
    """A copy of the tokenizer's files, so that every checkpoint carries them whatever becomes of the model's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in checkpoint.tokenizer_files(model):
        shutil.copy2(file, folder / file.name)
