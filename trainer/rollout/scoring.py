"""Score a closed group: shape its rewards, and decide whether it is trained on. Pure, except for the components.

Failed members are left out before a shaper or filter reads the group, so they affect the others only by their absence.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from ...errors import TurnwiseError
from ...records import SCORED_STATUSES, Group, GroupState, ScoredGroup, Trajectory, failed_by_policy
from ...store.operations import Rewards
from ..algorithms.filters.groups.base import GroupFilter
from ..algorithms.groups import PerTurn, Shaped
from ..algorithms.registry import component_name
from ..algorithms.rewards.base import RewardShaper

MIN_SURVIVORS = 2
"""Scored members that a group needs for a comparison."""


@dataclass(frozen=True, slots=True)
class Scoring:
    """The result of scoring a group."""

    scored: ScoredGroup
    rewards: Sequence[Rewards]
    """The scores to store: one per member that a shaper read; none in a run without shapers."""
    state: GroupState
    """``ready``, ``filtered`` or ``failed``."""
    reason: str
    """The reason that the group is not ready; empty if it is."""


def score(group: Group, shapers: Sequence[RewardShaper], filters: Sequence[GroupFilter]) -> Scoring:
    """Score a closed group with the last trajectory of each member.

    Raises:
        TurnwiseError: a shaper returned rewards of another shape, or a reward that is not finite.
    """
    finished = [one for one in group.trajectories if one.status in SCORED_STATUSES]
    if len(finished) < MIN_SURVIVORS:
        scored, _ = shape(group, ())
        return Scoring(scored, (), GroupState.FAILED, _few_survivors(group, len(finished)))
    scored, scores = shape(group, shapers)
    if len(scored.group.trajectories) < MIN_SURVIVORS:
        return Scoring(scored, scores, GroupState.FAILED, _few_scores(scores))
    for group_filter in filters:
        if reason := group_filter.reject(scored):
            return Scoring(scored, scores, GroupState.FILTERED, reason)
    return Scoring(scored, scores, GroupState.READY, "")


def unscored(group: Group, error: str) -> Scoring:
    """Return the scoring of a group that could not be scored because of ``error``: it fails, without a member."""
    finished = [one for one in group.trajectories if one.status in SCORED_STATUSES]
    scores = [Rewards(one.id, None, [{"error": error}]) for one in finished]
    scored = ScoredGroup(replace(group, trajectories=()), (), len(finished), failed_by_policy(group.trajectories))
    return Scoring(scored, scores, GroupState.FAILED, error)


def shape(group: Group, shapers: Sequence[RewardShaper]) -> tuple[ScoredGroup, list[Rewards]]:
    """Apply the shapers in order to the environment's rewards of a closed group, without its failed members.

    Returns:
        The scored group, and the scores to store: none without shapers.

    Raises:
        TurnwiseError: a shaper returned rewards of another shape, or a reward that is not finite.
    """
    failed = failed_by_policy(group.trajectories)
    complete = group = replace(group, trajectories=[one for one in group.trajectories if one.status in SCORED_STATUSES])
    rewards: PerTurn = [[step.reward for step in one.steps] for one in group.trajectories]
    verdicts: dict[str, list[dict[str, Any]]] = {one.id: [] for one in group.trajectories}
    for shaper in shapers:
        kept: list[tuple[Trajectory, list[float]]] = []
        for one, answer in zip(group.trajectories, _checked(shaper, group, rewards), strict=True):
            if answer.verdict:
                verdicts[one.id].append({**answer.verdict, "reward": component_name(type(shaper))})
            if answer.rewards is not None:
                kept.append((one, answer.rewards))
        group = replace(group, trajectories=[one for one, _ in kept])
        rewards = [turns for _, turns in kept]
    shaped = {one.id: turns for one, turns in zip(group.trajectories, rewards, strict=True)}
    scores = [Rewards(one.id, shaped.get(one.id), verdicts[one.id]) for one in complete.trajectories] if shapers else []
    return ScoredGroup(group, rewards, len(complete.trajectories) - len(group.trajectories), failed), scores


def _checked(shaper: RewardShaper, group: Group, rewards: PerTurn) -> Sequence[Shaped]:
    answers = shaper(group, [list(turns) for turns in rewards]) if rewards else []
    name = component_name(type(shaper))
    if len(answers) != len(rewards):
        raise TurnwiseError(
            f"the reward `{name}` returned {len(answers)} trajectories of group {group.id}, which has {len(rewards)}"
        )
    for one, before, answer in zip(group.trajectories, rewards, answers, strict=True):
        if answer.rewards is None:
            continue
        if len(answer.rewards) != len(before):
            raise TurnwiseError(
                f"the reward `{name}` returned {len(answer.rewards)} rewards for trajectory {one.id}, "
                f"which has {len(before)} turns"
            )
        if not all(isfinite(value) for value in answer.rewards):
            raise TurnwiseError(f"the reward `{name}` returned a reward that is not finite for trajectory {one.id}")
    return answers


def _few_survivors(group: Group, count: int) -> str:
    errors = [f"{one.status}: {one.error}" for one in group.trajectories if one.status not in SCORED_STATUSES]
    return f"{count} of {group.size} members survived; {errors[-1] if errors else ''}"


def _few_scores(scores: Sequence[Rewards]) -> str:
    missing = [one for one in scores if one.rewards is None]
    errors = [str(verdict["error"]) for one in missing for verdict in one.verdicts if "error" in verdict]
    kept = len(scores) - len(missing)
    return f"{kept} of {len(scores)} members got a score; {errors[-1] if errors else ''}".rstrip("; ")
