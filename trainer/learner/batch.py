"""Assemble the batch of one update from its groups: advantages, staleness sweep, sample filters.

Tokens of source ``replay`` have their own staleness bound, and are counted apart from fresh tokens.

Pure except for the components passed in. The groups were scored when they closed: they hold their shaped rewards and
their scored members only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from ...agents.rollout.control import LOSS_WEIGHT
from ...errors import TurnwiseError
from ...records import PolicyVersion, ScoredGroup, Source, Trajectory
from ..algorithms.advantages.base import AdvantageEstimator
from ..algorithms.filters.samples.base import SampleFilter
from ..algorithms.groups import TrainSample, sampled_tokens
from ..algorithms.losses.base import PolicyLoss
from .samples import samples
from .staleness import staleness, sweep


@dataclass(frozen=True, slots=True)
class Batch:
    """The training samples of one update, and counts of the tokens and members left out."""

    samples: Sequence[TrainSample]
    groups: Sequence[str]
    """Ids of the groups with at least one token to train on."""
    expired: Sequence[str]
    """Ids of the groups with nothing to train on: every token is too stale."""
    sampled_tokens: int
    """Fresh sampled tokens."""
    swept_tokens: int
    """Fresh sampled tokens with weight 0 because they are too stale."""
    swept_by_turns: Mapping[int, tuple[int, int]]
    """Episode length in turns -> (swept tokens, sampled tokens). Shows whether staleness selects short episodes."""
    unscored: int = 0
    """Members that a reward could not score; they are left out, like failed members."""
    replayed_tokens: int = 0
    """Replayed sampled tokens."""
    swept_replayed_tokens: int = 0
    """Replayed sampled tokens with weight 0 because they are too stale."""


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
    """Check that an array of advantages has one number per sampled token of its turn.

    The turns that a branch shares with its parent are not checked: they are trained on in the parent.

    Raises:
        TurnwiseError: it has not.
    """
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
) -> Batch:
    """Return the batch that trains the version of update number ``update``.

    Args:
        groups: leased and reused groups with their rewards, steps and messages.
        history: versions by id, abandoned versions included.
        update: updates done so far.
        max_staleness: staleness bound per fresh token, in updates.
        streams: one random stream per filter.
        replay_max_staleness: staleness bound per token of source ``replay``, in updates.
    """
    kept: list[TrainSample] = []
    trained: list[str] = []
    expired: list[str] = []
    sampled = swept = replayed = swept_replayed = unscored = 0
    by_turns: dict[int, tuple[int, int]] = {}
    for scored, credit in zip(groups, advantage(groups), strict=True):
        group = scored.group
        if any(one.source != Source.REPLAY for one in group.trajectories):
            unscored += scored.unscored
        trainable = False
        for trajectory, advantages in zip(group.trajectories, credit, strict=True):
            if trajectory.source not in loss.accepts:
                continue
            check_lengths(advantages, trajectory)
            is_replay = trajectory.source == Source.REPLAY
            for sample in samples(trajectory):
                ages = staleness(sample.versions, history, update)
                weights = sweep(ages, sample.mask, replay_max_staleness if is_replay else max_staleness)
                total, left = int(sample.mask.sum()), int(weights.sum())
                if is_replay:
                    replayed += total
                    swept_replayed += total - left
                else:
                    swept_before, sampled_before = by_turns.get(len(trajectory.steps), (0, 0))
                    by_turns[len(trajectory.steps)] = (swept_before + total - left, sampled_before + total)
                    sampled += total
                    swept += total - left
                if not left:
                    continue
                trainable = True
                weights *= np.float32(trajectory.extras.get(LOSS_WEIGHT, 1.0))
                values = expand_to_tokens(advantages, sample.turns, sample.positions)
                kept.append(TrainSample(sample, group.id, Source(trajectory.source), values, weights, ages))
        (trained if trainable else expired).append(group.id)
    for sample_filter, stream in zip(filters, streams, strict=True):
        kept = sample_filter(kept, stream)
    return Batch(kept, trained, expired, sampled, swept, by_turns, unscored, replayed, swept_replayed)
