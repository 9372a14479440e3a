"""The values that pass between components: closed groups, per-turn rewards, and training samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...records import Horizon, Outcome, Sample, Source, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PerTurn = list[list[float]]
"""One number per turn per trajectory of a group: ``values[trajectory][turn]``."""
ScoredPerTurn = Sequence[list[float] | None]
"""The same, with None for a trajectory without a score, which is left out of its group."""


@dataclass(frozen=True, slots=True)
class GroupResult:
    """A closed group, without its turns."""

    group: str
    task: Task
    horizon: Horizon
    episodes: Sequence[Outcome]
    """The scored episodes; failed members are absent."""


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
