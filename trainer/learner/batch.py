"""From leased groups to the batch of one update: shape, credit, sweep, filter.

Pure except for the components it is given. Failed members are left out before anything is computed, so they change no
one's advantage by anything but their absence.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from ...records import SCORED_STATUSES, Group, PolicyVersion, Source
from ..algorithms.advantages.base import AdvantageEstimator
from ..algorithms.filters.samples.base import SampleFilter
from ..algorithms.groups import PerTurn, TrainSample
from ..algorithms.losses.base import PolicyLoss
from ..algorithms.rewards.base import RewardShaper
from .samples import samples
from .staleness import staleness, sweep

AT_ONCE = 16
"""Groups whose rewards are shaped at the same time."""
SURVIVORS = 2
"""Members a group needs to be compared at all."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one update trains on, and what assembling it left behind."""

    samples: Sequence[TrainSample]
    groups: Sequence[str]
    """Groups that are trained on."""
    expired: Sequence[str]
    """Groups with nothing left to train on: too old, or too few members with a score."""
    sampled_tokens: int
    swept_tokens: int
    swept_by_turns: Mapping[int, tuple[int, int]]
    """Episode length in turns -> (tokens swept, tokens sampled): staleness must not quietly select short episodes."""
    unscored: int = 0
    """Members that a reward shaper had no score for: absent, like those that failed."""


def shaped(group: Group, shapers: Sequence[RewardShaper]) -> tuple[Group, PerTurn]:
    """Step rewards of a group's members: the environment's own, then each shaper in turn. The group comes back without
    the members that could not be scored.
    """
    rewards: PerTurn = [[step.reward for step in one.steps] for one in group.trajectories]
    for shaper in shapers:
        scored = [
            (one, turns)
            for one, turns in zip(group.trajectories, shaper(group, rewards), strict=True)
            if turns is not None
        ]
        group = replace(group, trajectories=[one for one, _ in scored])
        rewards = [turns for _, turns in scored]
    return group, rewards


def survivors(group: Group) -> Group:
    """The group without the members that failed."""
    return replace(group, trajectories=[one for one in group.trajectories if one.status in SCORED_STATUSES])


def per_token(turns: Sequence[float], turn_of: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the value of each token's turn, and 0 where ``turn_of`` is -1. Shape (tokens,)."""
    return np.asarray([*turns, 0.0], np.float32)[turn_of]


def assemble(
    groups: Sequence[Group],
    history: Mapping[int, PolicyVersion],
    update: int,
    bound: int,
    *,
    shapers: Sequence[RewardShaper],
    advantage: AdvantageEstimator,
    filters: Sequence[SampleFilter],
    loss: PolicyLoss,
    streams: Sequence[Random],
) -> Batch:
    """The batch of the update that turns version ``update`` into the next.

    Args:
        groups: leased groups with trajectories, steps and messages.
        history: versions by id, abandoned ones included.
        update: updates done so far.
        bound: the staleness bound, in updates.
        streams: the random stream of each of ``filters``.
    """
    kept: list[TrainSample] = []
    trained: list[str] = []
    expired: list[str] = []
    sampled = swept = unscored = 0
    by_turns: dict[int, tuple[int, int]] = {}
    present = [survivors(group) for group in groups]
    with ThreadPoolExecutor(AT_ONCE if shapers else 1) as threads:
        # Side by side: a shaper may ask somebody, and wait.
        scored = list(threads.map(lambda group: shaped(group, shapers), present))
    for there, (group, rewards) in zip(present, scored, strict=True):
        unscored += len(there.trajectories) - len(group.trajectories)
        if len(group.trajectories) < min(SURVIVORS, len(there.trajectories)):
            expired.append(group.id)
            continue
        credit = advantage(rewards)
        trainable = False
        for trajectory, turns in zip(group.trajectories, credit, strict=True):
            if trajectory.source not in loss.accepts:
                continue
            for sample in samples(trajectory):
                ages = staleness(sample.versions, history, update)
                weights = sweep(ages, sample.mask, bound)
                total, left = int(sample.mask.sum()), int(weights.sum())
                old, seen = by_turns.get(len(trajectory.steps), (0, 0))
                by_turns[len(trajectory.steps)] = (old + total - left, seen + total)
                sampled += total
                swept += total - left
                if not left:
                    continue
                trainable = True
                values = per_token(turns, sample.turns)
                kept.append(TrainSample(sample, group.id, Source(trajectory.source), values, weights, ages))
        (trained if trainable else expired).append(group.id)
    for one, stream in zip(filters, streams, strict=True):
        kept = one(kept, stream)
    return Batch(kept, trained, expired, sampled, swept, by_turns, unscored)
