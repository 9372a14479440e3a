"""The values that pass between components besides ``records.ScoredGroup``: shaped rewards and training samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...records import Sample, Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PerTurn = list[list[float]]
"""One number per turn per trajectory of a group: ``values[trajectory][turn]``."""


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
