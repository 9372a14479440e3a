"""Assemble the batch of one update from leased groups: rewards, advantages, staleness sweep, sample filters.

Pure except for the components passed in. Failed members are removed before anything is computed, so they affect the
advantages of the others only by their absence.
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

REWARD_THREADS = 16
"""Groups whose rewards are shaped concurrently."""
MIN_SURVIVORS = 2
"""Scored members that a group needs for a comparison."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The training samples of one update, and counts of the tokens and members left out."""

    samples: Sequence[TrainSample]
    groups: Sequence[str]
    """Ids of the groups with at least one token to train on."""
    expired: Sequence[str]
    """Ids of the groups with nothing to train on: every token is too stale, or too few members have a score."""
    sampled_tokens: int
    swept_tokens: int
    """Sampled tokens with weight 0 because they are too stale."""
    swept_by_turns: Mapping[int, tuple[int, int]]
    """Episode length in turns -> (swept tokens, sampled tokens). Shows whether staleness selects short episodes."""
    unscored: int = 0
    """Members that a reward could not score; they are left out, like failed members."""


def shape_rewards(group: Group, shapers: Sequence[RewardShaper]) -> tuple[Group, PerTurn]:
    """Apply the components of ``rewards`` in order to the per-turn rewards of the environment.

    Returns:
        The group without the members that a component could not score, and the rewards of the remaining members.
    """
    rewards: PerTurn = [[step.reward for step in member.steps] for member in group.trajectories]
    for shaper in shapers:
        scored = [
            (member, turns)
            for member, turns in zip(group.trajectories, shaper(group, rewards), strict=True)
            if turns is not None
        ]
        group = replace(group, trajectories=[member for member, _ in scored])
        rewards = [turns for _, turns in scored]
    return group, rewards


def without_failed(group: Group) -> Group:
    """Return the group without its failed members."""
    return replace(group, trajectories=[one for one in group.trajectories if one.status in SCORED_STATUSES])


def expand_to_tokens(turns: Sequence[float], turn_of: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the value of each token's turn, and 0 where ``turn_of`` is -1. Shape (tokens,)."""
    return np.asarray([*turns, 0.0], np.float32)[turn_of]


def assemble(
    groups: Sequence[Group],
    history: Mapping[int, PolicyVersion],
    update: int,
    max_staleness: int,
    *,
    shapers: Sequence[RewardShaper],
    advantage: AdvantageEstimator,
    filters: Sequence[SampleFilter],
    loss: PolicyLoss,
    streams: Sequence[Random],
) -> Batch:
    """Return the batch that trains the version of update number ``update``.

    Args:
        groups: leased groups with trajectories, steps and messages.
        history: versions by id, abandoned versions included.
        update: updates done so far.
        max_staleness: staleness bound per token, in updates.
        streams: one random stream per filter.
    """
    kept: list[TrainSample] = []
    trained: list[str] = []
    expired: list[str] = []
    sampled = swept = unscored = 0
    by_turns: dict[int, tuple[int, int]] = {}
    survivors = [without_failed(group) for group in groups]
    with ThreadPoolExecutor(REWARD_THREADS if shapers else 1) as threads:
        # Concurrently, because a reward may wait for a judge's response.
        scored = list(threads.map(lambda group: shape_rewards(group, shapers), survivors))
    for complete, (group, rewards) in zip(survivors, scored, strict=True):
        unscored += len(complete.trajectories) - len(group.trajectories)
        if len(group.trajectories) < min(MIN_SURVIVORS, len(complete.trajectories)):
            expired.append(group.id)
            continue
        trainable = False
        for trajectory, advantages in zip(group.trajectories, advantage(rewards), strict=True):
            if trajectory.source not in loss.accepts:
                continue
            for sample in samples(trajectory):
                ages = staleness(sample.versions, history, update)
                weights = sweep(ages, sample.mask, max_staleness)
                total, left = int(sample.mask.sum()), int(weights.sum())
                swept_before, sampled_before = by_turns.get(len(trajectory.steps), (0, 0))
                by_turns[len(trajectory.steps)] = (swept_before + total - left, sampled_before + total)
                sampled += total
                swept += total - left
                if not left:
                    continue
                trainable = True
                values = expand_to_tokens(advantages, sample.turns)
                kept.append(TrainSample(sample, group.id, Source(trajectory.source), values, weights, ages))
        (trained if trainable else expired).append(group.id)
    for sample_filter, stream in zip(filters, streams, strict=True):
        kept = sample_filter(kept, stream)
    return Batch(kept, trained, expired, sampled, swept, by_turns, unscored)
