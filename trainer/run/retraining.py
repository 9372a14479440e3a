"""Re-train a past run from the store: repeat each stored update, and compare the weights' hash with the stored one.

A run that was resumed is repeated along its surviving history: a checkpoint holds all that an update depends on, so the
abandoned updates leave no trace.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...records import PolicyVersion
from ...store import queries
from ...store.database import Database
from ...store.project import run_folder
from ...store.queries.lineage import StoredUpdate, load_update, update_numbers
from ..algorithms.algorithm_set import AlgorithmSet
from ..algorithms.losses.base import Need
from ..algorithms.random_streams import Streams
from ..config.loading import parse_config
from ..config.schema import RunConfig
from ..learner import checkpoint
from ..learner.backends.local import Learner
from ..learner.model.adapter import verify_base
from ..learner.provenance.recipe import Recipe, numerics
from ..learner.provenance.sampling_versions import sampling_versions
from ..learner.provenance.stored_batch import NotRecorded, load_members, recipe_of, stored_samples
from ..learner.stored_images import StoredImages

COMPONENTS = ("loss", "proximal")
"""The slots whose components take part in the learner's update; the results of the others are stored."""


@dataclass(frozen=True, slots=True)
class RepeatedUpdate:
    """One update, repeated."""

    update: int
    version: int
    """Id of the version that the update made."""
    stored_hash: str
    hash: str
    """The weights' hash after the repeated update."""
    notes: tuple[str, ...] = ()
    """Reasons why the sums may have other bits, such as another version of torch."""

    @property
    def matches(self) -> bool:
        """Return whether the weights are the stored ones, bit for bit."""
        return self.hash == self.stored_hash


@dataclass(frozen=True, slots=True)
class Retraining:
    """The result of re-training a run."""

    run: str
    start: int
    """Number of the update whose checkpoint was loaded; 0: the weights that training began with."""
    updates: list[RepeatedUpdate] = field(default_factory=list)
    """Up to the first one that differs."""
    total: int = 0
    """Updates of the run after ``start``, or up to the limit."""

    @property
    def first_difference(self) -> RepeatedUpdate | None:
        """Return the first update whose weights differ from the stored ones; None if none does."""
        return next((one for one in self.updates if not one.matches), None)


def retrain(
    database: Database,
    run: str,
    *,
    last: int | None = None,
    report: Callable[[RepeatedUpdate], None] = lambda update: None,
) -> Retraining:
    """Repeat the updates of a run from its first checkpoint, until one differs.

    Args:
        last: number of the last update to repeat; by default, that of the run.
        report: called after each update.

    Raises:
        NotFound: the run is not in the store.
        NotRecorded: the run is no training run, has no checkpoint or no update, or was trained on a GPU.
        TurnwiseError: stored content was altered, a model cannot be loaded, or that of an adapter has other weights.
    """
    with database.read() as conn:
        row = queries.find_run(conn, run)
        history = queries.versions(conn, run)
        numbers = update_numbers(conn, run)
        sampled_by = sampling_versions(conn, run)
    if row.kind != "train":
        raise NotRecorded(f"`{run}` is a run of kind {row.kind}; only a training run can be re-trained")
    config = parse_config(row.config)
    start, state = _first_checkpoint(run, history, row.uid.hex)
    verify_base(Path(start.checkpoint))
    learner = _learner(config, history, Path(start.checkpoint), state)
    streams = Streams(config.seed)
    streams.load_state_dict(state["streams"])
    chosen = [number for number in numbers if start.update < number and (last is None or number <= last)]
    if not chosen:
        raise NotRecorded(f"run `{run}` has no update after update {start.update}, that of its first checkpoint")
    result = Retraining(run, start.update, total=len(chosen))
    for number in chosen:
        with database.read() as conn:
            stored = load_update(conn, run, number)
        repeated = _repeat(database, stored, config, sampled_by, learner, streams)
        result.updates.append(repeated)
        report(repeated)
        if not repeated.matches:
            break
    return result


def _first_checkpoint(run: str, history: dict[int, PolicyVersion], uid: str) -> tuple[PolicyVersion, dict[str, Any]]:
    """Return the oldest surviving version with an intact checkpoint, and the state in it.

    Raises:
        NotRecorded: there is none.
    """
    reasons = []
    for version in (one for one in history.values() if one.checkpoint and not one.abandoned):
        try:
            return version, checkpoint.verify(Path(version.checkpoint), uid)
        except checkpoint.CheckpointBroken as error:
            reasons.append(str(error))
    raise NotRecorded(
        f"run `{run}` has no intact checkpoint to re-train from: {reasons[0] if reasons else 'it never saved one'}"
    )


def _learner(config: RunConfig, history: dict[int, PolicyVersion], folder: Path, state: dict[str, Any]) -> Learner:
    """Return the learner of a run as it was at a checkpoint, on the CPU."""
    algorithms = AlgorithmSet.of(config)
    on_cpu = config.learner.model_copy(update={"device": "cpu"})
    learner = Learner(folder, on_cpu, algorithms.loss, algorithms.proximal, config.rollout.temperature)
    learner.load_optimizer(folder)
    tensors = checkpoint.read_component_tensors(folder)
    for slot in COMPONENTS:
        component = getattr(learner, slot)
        component.load_state_dict(state["components"].get(slot, {}))
        prefix = f"{slot}/"
        own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        component.load_tensors(own)
    if Need.REFERENCE in config.loss.needs:
        first = next(one.checkpoint for one in history.values() if one.checkpoint and not one.abandoned)
        if (reference := config.reference_folder(Path(first))) is not None:
            learner.load_reference(reference)
    return learner


def _repeat(
    database: Database,
    stored: StoredUpdate,
    config: RunConfig,
    history: dict[int, PolicyVersion],
    learner: Learner,
    streams: Streams,
) -> RepeatedUpdate:
    recipe = recipe_of(stored)
    if not stored.weights_hash:
        raise NotRecorded(
            f"update {stored.update} of run `{stored.run}` has no hash of its weights: it was computed on "
            f"`{recipe.device}` with {recipe.ranks} ranks, and only the backend `local` on a CPU repeats its sums bit "
            "for bit"
        )
    torch.set_num_threads(recipe.num_threads)
    stored_keys = {"max_tokens_per_micro_batch": recipe.max_tokens_per_micro_batch, **recipe.learning_rate}
    learner.config = learner.config.model_copy(update=stored_keys)
    for slot, state in recipe.states.items():
        getattr(learner, slot).load_state_dict(state)
    members = load_members(database, stored, config)
    images = StoredImages(database, run_folder(database, stored.run) / "tokenizer")
    batch = [sample.train for sample in stored_samples(stored, members, history, images)]
    learner.update(batch, recipe.lr_progress, stored.update - 1, streams.of("minibatches"))
    return RepeatedUpdate(stored.update, stored.version, stored.weights_hash, learner.weights_hash(), _notes(recipe))


def _notes(recipe: Recipe) -> tuple[str, ...]:
    here = numerics()
    return (f"trained with {recipe.numerics}, repeated with {here}",) if recipe.numerics != here else ()
