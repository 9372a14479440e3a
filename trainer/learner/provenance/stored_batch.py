"""The batch of a stored update: its training samples, as the learner received them, and what it computed for them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ....agents.demonstrations import DemonstrationEncoder
from ....errors import TurnwiseError
from ....records import NO_VERSION, Message, PolicyVersion, Sample, SampleImage, Source, Trajectory
from ....store import queries
from ....store.database import Database
from ....store.project import run_folder
from ....store.queries.lineage import BatchMember, StoredUpdate
from ....store.queries.load import load_trajectories
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import SOURCES
from ...config.schema import RunConfig
from ..samples import samples, staleness, without_images
from .recipe import Recipe, SampleDetail, decode_details

T = TypeVar("T", bound=np.generic)


class NotRecorded(TurnwiseError):
    """The store does not hold what repeating an update needs."""


@dataclass(frozen=True, slots=True)
class StoredSample:
    """A training sample of a stored update; every array has the length of the sample."""

    position: int
    """Index in the batch."""
    train: TrainSample
    logprobs: NDArray[np.float32]
    """Log-probabilities in the update, to the precision of a float16 difference; NaN where not trained on."""
    proximal: NDArray[np.float32]
    """Log-probabilities of the proximal policy, likewise."""
    entropies: NDArray[np.float32]
    """Entropies in the update, to the precision of a float16; NaN where not trained on, and everywhere if the loss
    computes none."""


def recipe_of(update: StoredUpdate) -> Recipe:
    """Return the recipe of an update. Raises NotRecorded if it has none that this program reads."""
    if update.recipe is None:
        raise NotRecorded(
            f"update {update.update} of run `{update.run}` was stored without the facts that re-training needs: "
            "its process was of an older turnwise"
        )
    try:
        return Recipe.model_validate(update.recipe)
    except ValidationError as error:
        raise NotRecorded(
            f"the recipe of update {update.update} of run `{update.run}` was altered, or written by another version of "
            f"turnwise: {error}"
        ) from error


def load_members(
    database: Database, update: StoredUpdate, config: RunConfig, only: Collection[str] | None = None
) -> dict[str, Trajectory]:
    """Return the trajectories of a batch by id, with the tokens that the learner received.

    Demonstrations are encoded again, by the tokenizer in the run's folder.

    Args:
        config: of the run.
        only: the ids of the trajectories to load; by default, all.

    Raises:
        StepCorrupt: stored content was altered.
        TurnwiseError: a demonstration cannot be encoded.
    """
    names = [member.trajectory for member in update.members if only is None or member.trajectory in only]
    found = {trajectory.id: trajectory for trajectory in load_trajectories(database, names)}
    if experts := [one.id for one in found.values() if one.source is Source.EXPERT]:
        tokenizer = run_folder(database, update.run) / "tokenizer"
        encode = DemonstrationEncoder(database, tokenizer, config.max_context, config.horizon.max_images)
        groups = queries.RunReader(update.run, database, encode=encode).load_demonstrations(experts)
        found |= {trajectory.id: trajectory for scored in groups for trajectory in scored.group.trajectories}
    return found


def stored_samples(
    update: StoredUpdate,
    members: Mapping[str, Trajectory],
    history: Mapping[int, PolicyVersion],
    images: Callable[[Message], Sequence[SampleImage]] = without_images,
) -> list[StoredSample]:
    """Return the samples of those trajectories of a batch that are in ``members``, in the order of the batch.

    Args:
        history: the versions by id that sampled the tokens (``provenance.sampling_versions``).
        images: places the images of a message; not needed to read the samples.

    Raises:
        NotRecorded: the update has no recipe, or a trajectory no detail.
        TurnwiseError: a detail does not fit its trajectory: one of them was altered.
    """
    recipe = recipe_of(update)
    found: list[StoredSample] = []
    for member in update.members:
        if member.trajectory in members:
            paths = samples(members[member.trajectory], images)
            details = _details(update, member)
            found += [_stored(paths, detail, update, recipe, history, member.trajectory) for detail in details]
    return sorted(found, key=lambda one: one.position)


def _details(update: StoredUpdate, member: BatchMember) -> list[SampleDetail]:
    if member.detail is None:
        raise NotRecorded(
            f"update {update.update} of run `{update.run}` has no detail of trajectory {member.trajectory}: it cannot "
            "be repeated"
        )
    try:
        return decode_details(member.detail)
    except ValueError as error:
        raise _altered(update, member.trajectory, str(error)) from error


def _stored(
    paths: Sequence[Sample],
    detail: SampleDetail,
    update: StoredUpdate,
    recipe: Recipe,
    history: Mapping[int, PolicyVersion],
    trajectory: str,
) -> StoredSample:
    """Return one sample of a trajectory whose samples are ``paths``."""
    if not (0 <= detail.path < len(paths) and 0 <= detail.group < len(update.groups)):
        raise _altered(update, trajectory, f"it names path {detail.path} and group {detail.group}")
    sample = paths[detail.path]
    acted = sample.sources >= 0
    if np.count_nonzero(acted) != len(detail.weights):
        raise _altered(update, trajectory, f"it has {len(detail.weights)} tokens, not {np.count_nonzero(acted)}")
    if detail.sources.max(initial=0) >= len(recipe.sources):
        raise _altered(update, trajectory, f"it names source {detail.sources.max()} of {len(recipe.sources)}")
    authors = np.asarray([SOURCES.index(Source(name)) for name in recipe.sources], np.int8)
    task_success = recipe.task_success[detail.group]
    weights = _spread(detail.weights, acted, 0)
    train = TrainSample(
        replace(sample, sources=_spread(authors[detail.sources], acted, -1)),
        update.groups[detail.group].id,
        _spread(detail.advantages, acted, 0),
        weights,
        staleness(sample.versions, history, update.update - 1),
        nan if task_success is None else task_success,
        detail.path,
    )
    trained = weights != 0
    start = np.where(sample.mask != 0, sample.logprobs, np.float32(0))
    logprobs = start + _spread(detail.logprob_changes.astype(np.float32), acted, 0)
    proximal = logprobs + _spread(detail.proximal_changes.astype(np.float32), acted, 0)
    unknown = np.float32(nan)
    return StoredSample(
        detail.position,
        train,
        np.where(trained, logprobs, unknown),
        np.where(trained, proximal, unknown),
        _spread(detail.entropies.astype(np.float32), acted, nan),
    )


def _spread(values: NDArray[T], acted: NDArray[np.bool_], fill: float) -> NDArray[T]:
    """Return ``values``, one per action token, at the action tokens of a sample, and ``fill`` elsewhere."""
    whole = np.full(len(acted), fill, values.dtype)
    whole[acted] = values
    return whole


def _altered(update: StoredUpdate, trajectory: str, why: str) -> TurnwiseError:
    return TurnwiseError(
        f"update {update.update} of run `{update.run}`: the detail of trajectory {trajectory} does not fit the "
        f"trajectory, so one of them was altered: {why}"
    )


@dataclass(frozen=True, slots=True)
class TrainedToken:
    """One action token in a batch."""

    id: int
    source: str
    sample: int
    """Index of its sample in the batch."""
    position: int
    """Position among all action tokens of its turn."""
    version: int | None
    """Id of the version that sampled it; None if no version of the run did."""
    staleness: int | None
    """Updates between that version and the one that was updated."""
    advantage: float
    weight: float
    """0 where the token was not trained on: it was too stale, or a filter left it out."""
    sampled_logprob: float | None
    """Log-probability when it was sampled."""
    trained_logprob: float | None
    """Log-probability in the update; None where not trained on."""
    proximal_logprob: float | None
    """Log-probability under the proximal policy; None where not trained on."""
    entropy: float | None
    """Entropy in the update, in nats; None where not trained on, or if the loss of the run computes none."""
    importance_weight: float | None
    """Proximal/behavior, before the cap of the loss; None where either log-probability is unknown."""


@dataclass(frozen=True, slots=True)
class TrainedStep:
    """One turn of a trajectory, with its tokens in the batch."""

    index: int
    action: str
    reward: float
    """The environment's reward."""
    tokens: Sequence[TrainedToken]


def trained_steps(trajectory: Trajectory, samples: Sequence[StoredSample]) -> list[TrainedStep]:
    """Return the turns of a trajectory with the tokens of its samples in a batch; other samples are left out."""
    tokens: dict[int, list[TrainedToken]] = defaultdict(list)
    for stored in samples:
        if stored.train.sample.trajectory == trajectory.id:
            for turn, token in _tokens(stored):
                tokens[turn].append(token)
    return [TrainedStep(step.index, step.action, step.reward, tokens[step.index]) for step in trajectory.steps]


def _tokens(stored: StoredSample) -> list[tuple[int, TrainedToken]]:
    """Return the action tokens of a sample, each with its turn."""
    one, sample = stored.train, stored.train.sample
    return [
        (
            int(sample.turns[place]),
            TrainedToken(
                id=int(sample.tokens[place]),
                source=SOURCES[sample.sources[place]].value,
                sample=stored.position,
                position=int(sample.positions[place]),
                version=None if sample.versions[place] == NO_VERSION else int(sample.versions[place]),
                staleness=None if one.staleness[place] < 0 else int(one.staleness[place]),
                advantage=float(one.advantages[place]),
                weight=float(one.weights[place]),
                sampled_logprob=_known(sample.logprobs[place]),
                trained_logprob=_known(stored.logprobs[place]),
                proximal_logprob=_known(stored.proximal[place]),
                entropy=_known(stored.entropies[place]),
                importance_weight=_known(np.exp(np.float64(stored.proximal[place]) - sample.logprobs[place])),
            ),
        )
        for place in (sample.sources >= 0).nonzero()[0]
    ]


def _known(value: float) -> float | None:
    return None if isnan(value) else float(value)
