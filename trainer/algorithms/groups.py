"""The values that pass between components besides ``records.ScoredGroup``: shaped rewards and training samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ...records import Sample, ScoredGroup, Source, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

PerTurn = list[list[float]]
"""One number per turn per trajectory of a group: ``values[trajectory][turn]``."""
Credit = Sequence["Sequence[float | NDArray[np.float32]]"]
"""Advantages of a group, ``values[trajectory][turn]``: one number for all sampled tokens of the turn, or an array with
one number per sampled token of the turn, in the order of the tokens.
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
    source: Source
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]
    """0 where the token is not trained on: not sampled, too stale, or filtered."""
    staleness: NDArray[np.int32]
    """Updates between the version that sampled the token and the version being updated; -1 where not sampled."""


def sampled_tokens(trajectory: Trajectory) -> list[int]:
    """Return the number of sampled tokens per turn; 0 for a turn of a policy without tokens."""
    counts = {message.index: int(sum(message.mask)) for message in trajectory.messages}
    return [0 if step.message is None else counts.get(step.message, 0) for step in trajectory.steps]


def successes(scored: ScoredGroup, min_return: float) -> list[bool]:
    """Return per member whether its shaped return reaches ``min_return``."""
    return [sum(turns) >= min_return for turns in scored.rewards]


def whole_paths(values: Sequence[Sequence[T]], trajectories: Sequence[Trajectory]) -> list[list[T]]:
    """Return ``values[trajectory][turn]`` with the turns that a branch shares with its parent taken from the parent.

    If the parent is not among ``trajectories``, because it failed, the branch keeps its own values.
    """
    position = {one.id: index for index, one in enumerate(trajectories)}

    def path(index: int) -> list[T]:
        one = trajectories[index]
        parent = position.get(one.branched_from or "")
        shared = 0 if parent is None else one.branched_at or 0
        return [*([] if parent is None else path(parent)[:shared]), *values[index][shared:]]

    return [path(index) for index in range(len(trajectories))]
