"""The values that pass between components besides ``records.ScoredGroup``: shaped rewards and training samples."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...records import SUCCESS_RETURN, Message, Role, Sample, ScoredGroup, Source, Trajectory, is_success

T = TypeVar("T")

PerTurn = list[list[float]]
"""One number per turn per trajectory of a group: ``values[trajectory][turn]``."""
Credit = Sequence["Sequence[float | NDArray[np.float32]]"]
"""Advantages of a group, ``values[trajectory][turn]``: one number for all sampled tokens of the turn, or an array with
one number per sampled token of the turn, in the order of its messages and their tokens.
"""


@dataclass(frozen=True, slots=True)
class Shaped:
    """The answer of a reward shaper on one trajectory."""

    rewards: list[float] | None
    """Shaped reward per turn; None if the trajectory has no score, and is left out of its group."""
    verdict: Mapping[str, Any] = field(default_factory=dict)
    """JSON values that explain the rewards; stored with the trajectory. Empty stores nothing."""


@dataclass(frozen=True, slots=True)
class TrainSample:
    """A sample with the values an update needs per token; every array has the sample's length."""

    sample: Sample
    group: str
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]
    """0 where the token is not trained on: context, of a source that the loss does not accept, too stale, filtered."""
    staleness: NDArray[np.int32]
    """Updates between the version that sampled the token and the version being updated; -1 where not sampled."""
    task_success: float = nan
    """Share of the policy's trajectories of the same task in this batch that succeeded; NaN if there is none."""
    path: int = 0
    """Index of the sample among those of its trajectory (``learner.samples``)."""

    @property
    def episode(self) -> tuple[str, str]:
        """Return the name of the sample's episode, unique in a batch."""
        return self.group, self.sample.trajectory


def action_tokens(message: Message) -> NDArray[np.bool_]:
    """Return where a token was sampled by the policy, or belongs to a turn from elsewhere. Shape (tokens,)."""
    if message.role is Role.ASSISTANT and message.source is not Source.POLICY:
        return np.ones(len(message.tokens), np.bool_)
    return np.asarray(message.mask, np.bool_)


def is_demonstration(scored: ScoredGroup) -> bool:
    """Return whether all trajectories of a group come from an expert: the group has no advantages."""
    members = scored.group.trajectories
    return bool(members) and all(member.source is Source.EXPERT for member in members)


def turn_of_messages(trajectory: Trajectory) -> dict[int, int]:
    """Return the turn of each message, by the message's index.

    A step names the last message of its turn. The messages between that of the step before and its own, observations
    included, belong to the same turn, on whatever path of the tree. Messages after the last step belong to no turn.
    """
    ends = [(step.message, step.index) for step in trajectory.steps if step.message is not None]
    last = [message for message, _ in ends]
    found = {}
    for message in trajectory.messages:
        if (place := bisect_left(last, message.index)) < len(ends):
            found[message.index] = ends[place][1]
    return found


def sampled_tokens(trajectory: Trajectory) -> list[int]:
    """Return the number of action tokens per turn, in all messages of the turn; 0 for a policy without tokens."""
    turns, counts = turn_of_messages(trajectory), Counter[int]()
    for message in trajectory.messages:
        if (turn := turns.get(message.index)) is not None:
            counts[turn] += int(np.count_nonzero(action_tokens(message)))
    return [counts[step.index] for step in trajectory.steps]


def successes(scored: ScoredGroup, min_return: float = SUCCESS_RETURN) -> list[bool]:
    """Return per scored member whether it succeeded: by the environment's verdict, or without one, by its shaped
    return (``records.is_success``)."""
    return [
        is_success(one.success, one.status, sum(turns), min_return)
        for one, turns in zip(scored.group.trajectories, scored.rewards, strict=True)
    ]


def counted_successes(scored: ScoredGroup, min_return: float = SUCCESS_RETURN) -> list[bool]:
    """Return whether each member that a success rate counts succeeded: ``successes``, then a False per member that
    failed because of the policy. A task on which the policy runs into timeouts is not a solved one."""
    return [*successes(scored, min_return), *[False] * scored.failed_by_policy]


def whole_paths(values: Sequence[Sequence[T]], trajectories: Sequence[Trajectory]) -> list[list[T]]:
    """Return ``values[trajectory][turn]`` with the turns that a branch shares with its parent taken from the parent.

    If the parent is not among ``trajectories``, because it failed, the branch keeps its own values.
    """
    position = {trajectory.id: index for index, trajectory in enumerate(trajectories)}

    def path(index: int) -> list[T]:
        one = trajectories[index]
        parent = position.get(one.branched_from or "")
        shared = 0 if parent is None else one.branched_at or 0
        return [*([] if parent is None else path(parent)[:shared]), *values[index][shared:]]

    return [path(index) for index in range(len(trajectories))]
