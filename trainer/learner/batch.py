"""Assemble the batch of one update from its groups: advantages, staleness sweep, sample filters.

Tokens of source ``replay`` have their own staleness bound, and are counted apart from fresh tokens.

Pure except for the components passed in. The groups were scored when they closed: they hold their shaped rewards and
their scored members only. The column ``sources`` of a sample and the loss's ``accepts`` decide which tokens are trained
on. Demonstrations have no rewards to compare: the advantage estimator does not see them, and their advantages are 0.
The estimator, which may learn from the groups, is not called for a batch without a token to train on.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from random import Random
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...agents.rollout.control import LOSS_WEIGHT
from ...errors import TurnwiseError
from ...records import Message, PolicyVersion, Sample, SampleImage, ScoredGroup, Source, Trajectory
from ..algorithms.advantages.base import AdvantageEstimator
from ..algorithms.groups import Credit, TrainSample, is_demonstration, sampled_tokens, successes
from ..algorithms.losses.base import SOURCES, PolicyLoss
from ..algorithms.sample_filters.base import SampleFilter
from .samples import samples, staleness, sweep, without_images


class UnreadableImage(TurnwiseError):
    """An image of a stored message cannot be read, or is not the one that its tokens stand for."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The training samples of one update, and counts of the tokens and members left out."""

    samples: Sequence[TrainSample]
    groups: Sequence[str]
    """Ids of the groups that the update consumes: those with a token to train on. In a batch with such a group, also
    those whose sources the loss does not accept."""
    expired: Sequence[str]
    """Ids of the other groups: every token is too stale, or nothing in the batch can be trained on."""
    sampled_tokens: int
    """Fresh tokens that the policy sampled, of sources that the loss accepts."""
    swept_tokens: int
    """Of these, tokens with weight 0 because they are too stale."""
    swept_by_turns: Mapping[int, tuple[int, int]]
    """Episode length in turns -> (swept tokens, sampled tokens). Shows whether staleness selects short episodes."""
    unscored: int = 0
    """Members that a reward could not score; they are left out, like failed members."""
    replayed_tokens: int = 0
    """Replayed sampled tokens."""
    swept_replayed_tokens: int = 0
    """Replayed sampled tokens with weight 0 because they are too stale."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Groups with an image that cannot be read, by id, and the reason; nothing of them is trained on."""


def expand_to_tokens(
    turns: Sequence[float | NDArray[np.float32]], turn_of: NDArray[np.int32], positions: NDArray[np.int32]
) -> NDArray[np.float32]:
    """Return the value of each token of a sample, and 0 where ``turn_of`` is -1. Shape (tokens,).

    Args:
        turns: per turn, one number for all its sampled tokens, or an array with one number per sampled token.
        turn_of: (tokens,) turn of each sampled token, -1 elsewhere.
        positions: (tokens,) position of each sampled token among those of its turn, -1 elsewhere.
    """
    whole = [0.0 if isinstance(value, np.ndarray) else value for value in turns]
    values = np.asarray([*whole, 0.0], np.float32)[turn_of]
    for turn, value in enumerate(turns):
        if isinstance(value, np.ndarray):
            here = turn_of == turn
            values[here] = value[positions[here]]
    return values


def check_lengths(turns: Sequence[float | NDArray[np.float32]], trajectory: Trajectory) -> None:
    """Check that advantages are finite, one per turn, and that an array has one number per sampled token of its turn.

    The arrays of turns that a branch shares with its parent are not checked: they are trained on in the parent.

    Raises:
        TurnwiseError: they are not.
    """
    if len(turns) != len(trajectory.steps):
        raise TurnwiseError(
            f"the advantage returned {len(turns)} values for trajectory {trajectory.id}, which has "
            f"{len(trajectory.steps)} turns"
        )
    if not all(np.isfinite(value).all() for value in turns):
        raise TurnwiseError(f"the advantage returned a value that is not finite for trajectory {trajectory.id}")
    if not any(isinstance(value, np.ndarray) for value in turns):
        return
    counts, own = sampled_tokens(trajectory), trajectory.branched_at or 0
    for turn, (value, count) in enumerate(zip(turns, counts, strict=True)):
        if turn >= own and isinstance(value, np.ndarray) and value.shape != (count,):
            raise TurnwiseError(
                f"the advantage returned an array of shape {value.shape} for turn {turn}, "
                f"which has {count} sampled tokens"
            )


def assemble(
    groups: Sequence[ScoredGroup],
    history: Mapping[int, PolicyVersion],
    update: int,
    max_staleness: int,
    *,
    advantage: AdvantageEstimator,
    filters: Sequence[SampleFilter],
    loss: PolicyLoss,
    streams: Sequence[Random],
    replay_max_staleness: int = 0,
    images: Callable[[Message], Sequence[SampleImage]] = without_images,
) -> Batch:
    """Return the batch that trains the version of update number ``update``.

    Args:
        groups: leased and reused groups with their rewards, steps and messages.
        history: versions by id, abandoned versions included.
        update: updates done so far.
        max_staleness: staleness bound per fresh token, in updates.
        streams: one random stream per filter.
        replay_max_staleness: staleness bound per token of source ``replay``, in updates.
        images: places the images of a message, or raises ``UnreadableImage``: its group is then left out.
    """
    accepted = np.asarray([*(source in loss.accepts for source in SOURCES), False])  # the last is context, source -1

    def swept(trajectory: Trajectory) -> Iterator[_Swept]:
        bound = replay_max_staleness if trajectory.source == Source.REPLAY else max_staleness
        for sample in samples(trajectory, images):
            ages, accepts = staleness(sample.versions, history, update), accepted[sample.sources]
            yield _Swept(sample, ages, accepts & (sample.mask != 0), sweep(ages, accepts, bound))

    paths: list[list[list[_Swept]]] = []
    unreadable: dict[str, str] = {}
    for scored in groups:
        try:
            paths.append([list(swept(trajectory)) for trajectory in scored.group.trajectories])
        except UnreadableImage as error:
            unreadable[scored.group.id] = str(error)
    groups = [scored for scored in groups if scored.group.id not in unreadable]
    has_trained = any(one.weights.any() for members in paths for member in members for one in member)
    credits = _credits(groups, advantage) if has_trained else map(_no_credit, groups)
    success = _task_success(groups)
    kept: list[TrainSample] = []
    trained: list[str] = []
    expired: list[str] = []
    unread: list[str] = []
    sampled = left_out = replayed = replayed_left_out = unscored = 0
    by_turns: dict[int, tuple[int, int]] = {}
    for scored, members, credit in zip(groups, paths, credits, strict=True):
        group = scored.group
        if any(trajectory.source != Source.REPLAY for trajectory in group.trajectories):
            unscored += scored.unscored
        trainable = stale = False
        for trajectory, member, advantages in zip(group.trajectories, members, credit, strict=True):
            check_lengths(advantages, trajectory)
            for path, one in enumerate(member):
                total = int(one.read.sum())
                lost = total - int(one.weights[one.read].sum())
                stale |= lost > 0
                if trajectory.source == Source.REPLAY:
                    replayed, replayed_left_out = replayed + total, replayed_left_out + lost
                else:
                    sampled, left_out = sampled + total, left_out + lost
                    lost_before, total_before = by_turns.get(len(trajectory.steps), (0, 0))
                    by_turns[len(trajectory.steps)] = lost_before + lost, total_before + total
                weights = one.weights * np.float32(trajectory.extras.get(LOSS_WEIGHT, 1.0))
                if not weights.any():
                    continue
                trainable = True
                values = expand_to_tokens(advantages, one.sample.turns, one.sample.positions)
                task_success = success.get(group.task.id, nan)
                kept.append(TrainSample(one.sample, group.id, values, weights, one.ages, task_success, path))
        (trained if trainable else expired if stale else unread).append(group.id)
    (trained if trained else expired).extend(unread)
    for sample_filter, stream in zip(filters, streams, strict=True):
        kept = sample_filter(kept, stream)
    return Batch(kept, trained, expired, sampled, left_out, by_turns, unscored, replayed, replayed_left_out, unreadable)


class _Swept(NamedTuple):
    """A sample and the sweep of its stale tokens; every array has the shape (tokens,)."""

    sample: Sample
    ages: NDArray[np.int32]
    read: NDArray[np.bool_]
    """Whether the policy sampled the token, and the loss accepts its source."""
    weights: NDArray[np.float32]
    """1 where the token is trained on, else 0."""


def _credits(groups: Sequence[ScoredGroup], advantage: AdvantageEstimator) -> Iterator[Credit]:
    """Yield the advantages of each group; those of demonstrations are 0."""
    scored = [group for group in groups if not is_demonstration(group)]
    with advantage.calling("__call__"):
        credits = list(advantage(scored))
    if [len(credit) for credit in credits] != [len(one.group.trajectories) for one in scored]:
        raise TurnwiseError(
            f"the advantage returned values for {[len(credit) for credit in credits]} trajectories per group; the "
            f"groups of the batch have {[len(one.group.trajectories) for one in scored]}"
        )
    compared = iter(credits)
    for group in groups:
        yield _no_credit(group) if is_demonstration(group) else next(compared)


def _no_credit(scored: ScoredGroup) -> Credit:
    return [[0.0] * len(turns) for turns in scored.rewards]


def _task_success(groups: Sequence[ScoredGroup]) -> dict[str, float]:
    """Return per task the share of the policy's members that succeeded, of those that a rate counts."""
    found: dict[str, list[bool]] = defaultdict(list)
    for scored in groups:
        members = zip(scored.group.trajectories, successes(scored), strict=True)
        own = [won for trajectory, won in members if trajectory.source is Source.POLICY]
        if own:
            found[scored.group.task.id] += [*own, *[False] * scored.failed_by_policy]
    return {task: fmean(values) for task, values in found.items()}
