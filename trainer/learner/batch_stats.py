"""Compute the numbers stored with an update: the contribution of each trajectory, and the metrics of the batch."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base.rates import success_rate
from ...envs.tasks import env_key
from ...records import SCORED_STATUSES, UNSCORED, Group, Source, Trajectory
from ...store.operations import BatchItem
from ..algorithms.losses.base import SOURCES
from ..telemetry.events import REWARD_PART
from ..telemetry.limits import LimitCounts
from .batch import Batch

POLICY = SOURCES.index(Source.POLICY)
OWN = (POLICY, SOURCES.index(Source.PATCH))
"""Sources of the tokens of the policy's own trajectories, as indices in ``SOURCES``."""
REWARD_PARTS_MAX = 50
"""Parts with a metric: the first by name. An environment chooses the names."""
NO_DETAILS: Mapping[str, bytes] = MappingProxyType({})


@dataclass(slots=True)
class _Contribution:
    advantages: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Those of the trained tokens, by turn."""
    max_staleness: int = 0
    fresh: bool = False


def batch_items(
    batch: Batch, fresh: Collection[str], details: Mapping[str, bytes] = NO_DETAILS, *, is_idle: bool = False
) -> list[BatchItem]:
    """Return one item per trajectory with a trained token, with its detail (``provenance``) if ``details`` has one.

    A trajectory counts as reuse if every trained token of it is reused: its source is neither ``policy`` nor ``patch``,
    or its group is not among ``fresh``, the groups that are trained on for the first time.

    Args:
        is_idle: whether the gradient of the update was 0: then it trained on none of the tokens.
    """
    found: dict[str, _Contribution] = {}
    for sample in batch.samples:
        trained = sample.weights != 0
        if not trained.any():
            continue
        one = found.setdefault(sample.sample.trajectory, _Contribution())
        one.max_staleness = max(one.max_staleness, int(sample.staleness[trained].max()))
        one.fresh |= sample.group in fresh and bool(np.isin(sample.sample.sources[trained], OWN).any())
        turns, advantages = sample.sample.turns[trained].tolist(), sample.advantages[trained].tolist()
        for turn, advantage in zip(turns, advantages, strict=True):
            one.advantages[turn].append(advantage)
    return [_item(name, one, details.get(name), is_idle=is_idle) for name, one in found.items()]


def _item(name: str, one: _Contribution, detail: bytes | None, *, is_idle: bool) -> BatchItem:
    values = [value for turn in one.advantages.values() for value in turn]
    return BatchItem(
        name,
        0 if is_idle else len(values),
        one.max_staleness,
        fmean(values),
        {turn: fmean(found) for turn, found in sorted(one.advantages.items())},
        one.fresh,
        detail,
    )


def batch_metrics(groups: Sequence[Group], batch: Batch) -> dict[str, Any]:
    """Return the metrics of a batch by name; ``docs/guide/metrics.md`` explains each.

    Args:
        groups: the leased groups, each trained on for the first time.
        batch: assembled from these groups and from reused ones.
    """
    members = [
        trajectory for group in groups for trajectory in group.trajectories if trajectory.status in SCORED_STATUSES
    ]
    opened = sum(group.size for group in groups)
    present = sum(member.branched_from is None for member in members)
    steps = [step for member in members for step in member.steps]
    trained = [(sample, sample.weights > 0) for sample in batch.samples]
    ages = np.concatenate(
        [np.empty(0, np.int32), *(one.staleness[kept & (one.sample.sources == POLICY)] for one, kept in trained)]
    )
    values, counts = np.unique(ages, return_counts=True)
    by_environment = _limits_by_environment(groups)
    sources = np.concatenate([np.empty(0, np.int8), *(one.sample.sources[kept] for one, kept in trained)])
    authors = {SOURCES[index].value: int(count) for index, count in enumerate(np.bincount(sources)) if count}
    unscored = batch.unscored + sum(UNSCORED in member.extras for member in members)
    return {
        "success": success_rate(
            (trajectory.success, trajectory.status, trajectory.reward)
            for group in groups
            for trajectory in group.trajectories
        ),
        "reward": fmean([member.reward for member in members]) if members else 0.0,
        **_reward_parts(members),
        "trajectories": len(members),
        "turns": len(steps),
        "turns_per_episode": len(steps) / max(len(members), 1),
        **LimitCounts.of_trajectories(members).metrics(),
        **({"limits_by_environment": by_environment} if len(by_environment) > 1 else {}),
        "invalid_action_fraction": sum(not step.action_valid for step in steps) / max(len(steps), 1),
        "horizon_turns": max(group.horizon.max_turns for group in groups),
        "staleness_mean": float(ages.mean()) if len(ages) else 0.0,
        "staleness_max": int(ages.max(initial=0)),
        "tokens_by_staleness": {str(age): int(count) for age, count in zip(values, counts, strict=True)},
        "tokens_by_source": authors,
        "swept_fraction": batch.swept_tokens / max(batch.sampled_tokens, 1),
        "swept_fraction_by_turns": {
            str(turns): swept / max(sampled, 1) for turns, (swept, sampled) in batch.swept_by_turns.items() if swept
        },
        "expired_groups": len({group.id for group in groups} - set(batch.groups)),
        "missing_fraction": max(0.0, 1 - present / opened),
        "unscored_members": batch.unscored,
        "unscored_fraction": unscored / max(len(members) + batch.unscored, 1),
        "replayed_fraction": authors.get(Source.REPLAY.value, 0) / max(len(sources), 1),
        "replayed_swept_fraction": batch.swept_replayed_tokens / max(batch.replayed_tokens, 1),
    }


def _limits_by_environment(groups: Sequence[Group]) -> dict[str, dict[str, float]]:
    """Return the shares of the limits (``LimitCounts.metrics``) by environment."""
    members: dict[str, list[Trajectory]] = defaultdict(list)
    for group in groups:
        members[env_key(group.task)] += [one for one in group.trajectories if one.status in SCORED_STATUSES]
    return {environment: LimitCounts.of_trajectories(members[environment]).metrics() for environment in sorted(members)}


def _reward_parts(members: Sequence[Trajectory]) -> dict[str, float]:
    """Return the mean of each part of the reward per episode; an episode without the part counts as 0."""
    totals: dict[str, float] = {}
    for member in members:
        for step in member.steps:
            for name, value in step.reward_parts.items():
                totals[name] = totals.get(name, 0.0) + value
    return {f"{REWARD_PART}{name}": totals[name] / len(members) for name in sorted(totals)[:REWARD_PARTS_MAX]}
