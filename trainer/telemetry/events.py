"""What a run tells whoever is watching: the console's live table, plain lines, the metrics file."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...records import GroupState


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know."""

    text: str


@dataclass(frozen=True, slots=True)
class UpdateDone:
    """One optimizer update, and the state of the run after it."""

    update: int
    version: int
    success: float
    """Share of the batch's members that succeeded; NaN where the environments give no verdict."""
    reward: float
    """Mean return of the batch's members."""
    horizon_turns: int
    staleness_mean: float
    """Over the trained tokens, in updates."""
    staleness_max: int
    tokens_per_s: float
    """Trained tokens a second since the last update."""
    turns_per_s: float
    """Turns trained on a second since the last update."""
    groups: Mapping[GroupState, int]
    """Groups by state."""
    waiting: str
    """What the learner waited on most since the last update."""
    loss: float
    entropy: float
    seconds: float
    """Of training so far."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Held-out success with its 95 % Wilson interval."""

    name: str
    success: float
    low: float
    high: float
    families: Mapping[str, float]
    """Success by environment of the mixture."""
    seconds: float
    tasks: int
    """Episodes that ended with an outcome."""
    failed: int
    """Episodes that failed for the world's reasons; they are in no rate."""


Event = Note | UpdateDone | Evaluated
