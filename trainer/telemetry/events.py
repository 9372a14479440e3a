"""Events that a run reports while it goes on, for the console and the metrics, and the result of an evaluation."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from ...base.rates import Rate
from ...records import GroupState, Limit

REWARD_PART = "reward_part/"
"""Prefix of the metric of one part of the reward; its name follows."""


def component_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics of an update that components added, each named ``<slot>/<name>``."""
    numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if "/" in name and not name.startswith(REWARD_PART)}


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
    limits: Mapping[Limit, float] = field(default_factory=dict)
    """The limits of the horizon that cut more than a tenth of the turns or episodes, with the share."""
    reward_parts: Mapping[str, float] = field(default_factory=dict)
    """The mean of each part of ``reward`` per episode."""
    is_offline: bool = False
    """Whether the groups are stored ones of another run: success and reward are not those of this run's policy, nothing
    is played or waited for, and the staleness is not defined."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """All values of the update in ``metrics.jsonl``."""


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Success of a policy on held-out tasks, with its 95 % interval (``Rate``)."""

    name: str
    run: str
    tasks: int
    """Tasks with a counted episode."""
    failed: int
    """Episodes that failed because of their environment, an engine or a worker; no rate counts them."""
    failed_by_policy: int
    """Counted episodes that ended as ``policy_error`` or ``timeout``; each is a failure in every rate."""
    success: float
    low: float
    high: float
    reward: float
    """Mean over the counted episodes; a failed one has the reward that it had collected."""
    turns: float
    by_environment: Mapping[str, Rate] = field(default_factory=dict)
    """By environment of the mixture."""
    seconds: float = 0.0
    version: int | None = None
    """Id of the version that was evaluated in a run; None for a stand-alone evaluation."""
    note: str = ""
    """The reason for which an episode ended before its first turn; empty if none did."""
    limits: dict[str, float] = field(default_factory=dict)
    """The shares that the limits of the horizon cut, and the mean length of an answer (``limits.LimitCounts``)."""
    limits_by_environment: dict[str, dict[str, float]] = field(default_factory=dict)
    episodes: int = 0
    """Episodes that the rates count: one or several per task."""
    pass_at: Mapping[str, float] = field(default_factory=dict)
    pass_all: Mapping[str, float] = field(default_factory=dict)
    pass_tasks: Mapping[str, int] = field(default_factory=dict)
    samples: int = 1
    """Episodes per task that were requested."""
    temperature: float | None = None
    """Sampling temperature, 0 for greedy; None for a policy that samples no tokens."""

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the result whose ``json`` is ``values``."""
        by_environment = {name: Rate.of_json(rate) for name, rate in values["by_environment"].items()}
        return cls(**{**values, "by_environment": by_environment})

    def json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    def is_comparable(self, other: Self) -> bool:
        """Return whether both were played with the same settings: otherwise the policy is not the only difference."""
        return (self.samples, self.temperature) == (other.samples, other.temperature)


Event = Note | UpdateDone | EvalResult
