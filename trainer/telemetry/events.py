"""Events that a run reports while it goes on: for the console's live table, plain lines and the metrics file."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...records import GroupState


@dataclass(frozen=True, slots=True)
class Note:
    """A line of text for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class UpdateDone:
    """One update, and the state of the run after it."""

    update: int
    version: int
    success: float
    """Share of the batch's episodes that succeeded, of those that a rate counts (``rates``)."""
    reward: float
    """Mean return of the batch's episodes."""
    horizon_turns: int
    staleness_mean: float
    """Over the trained tokens, in updates."""
    staleness_max: int
    tokens_per_s: float
    """Trained tokens per second since the last update."""
    turns_per_s: float
    """Trained turns per second since the last update."""
    groups: Mapping[GroupState, int]
    """Groups by state."""
    waiting: str
    """``rollouts`` or ``learner``: the part that took longer since the last update."""
    loss: float
    entropy: float | None
    """Mean entropy of the policy in nats; None if the loss does not compute it."""
    seconds: float
    """Training time so far."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Held-out success with its 95 % Wilson interval."""

    name: str
    success: float
    low: float
    high: float
    by_environment: Mapping[str, float]
    """Success by environment of the mixture."""
    seconds: float
    tasks: int
    """Episodes that the rates count."""
    failed: int
    """Episodes that failed because of their environment, an engine or a worker; no rate counts them."""
    failed_by_policy: int = 0
    """Counted episodes that ended as ``policy_error`` or ``timeout``."""


Event = Note | UpdateDone | Evaluated
