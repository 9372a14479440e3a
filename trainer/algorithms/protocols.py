"""The extension points. Each answers one question; each is a small protocol with a pure default in a file of its own.

All randomness comes through the ``rng`` an extension is given, its own stream (``streams``). All state leaves through
``state_dict``. So a resumed run continues as the uninterrupted one would. Rewards and advantages are plain floats by
trajectory and turn: ``rewards[i][t]``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from ...records import Group, GroupState, Horizon, Outcome, Sample, Source, Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor
    from torch.nn import Module

    from ..config.schema import EnvironmentConfig

PerTurn = list[list[float]]
"""A number for each turn of each trajectory of a group."""
Shaped = Sequence[list[float] | None]
"""The same; None for a trajectory that could not be scored and is left out of its group."""


class Stateful(Protocol):
    """What every extension offers a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """All state, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """A closed group, in brief."""

    group: str
    task: Task
    horizon: Horizon
    outcomes: Sequence[Outcome]
    """Of the members whose status is an outcome; failures are absent."""


class TaskSampler(Stateful, Protocol):
    """Which tasks?"""

    def propose(self, environments: Sequence[EnvironmentConfig], rng: Random) -> Task:
        """The next task to play."""

    def update(self, closed: GroupOutcome) -> None:
        """Learn from a group that closed; one that failed has fewer than two outcomes."""


class PromptScaffold(Stateful, Protocol):
    """What text comes before the environment's own instructions? It is the group's ``prompt_prefix``."""

    def apply(self, task: Task, rng: Random) -> str:
        """The scaffold of a group of this task; empty for none."""


class RolloutBudget(Stateful, Protocol):
    """How many rollouts?"""

    def size(self, task: Task) -> int:
        """Members of a group of this task."""


class HorizonSchedule(Stateful, Protocol):
    """How long? One horizon a group, fixed when it opens."""

    def horizon(self, task: Task, update: int) -> Horizon:
        """The horizon of a group that opens now, after ``update`` updates."""

    def longest(self) -> Horizon:
        """The horizon of evaluation: the longest this schedule gives."""


class RolloutController(Stateful, Protocol):
    """Continue or stop? Asked in the rollout worker after each turn."""

    def stop(self, trajectory: str, turn: int, reward: float) -> str:
        """A reason to end the episode here as truncated; empty to play on."""


class RewardShaper(Stateful, Protocol):
    """Step rewards: the environment's own to begin with, each shaper given the last one's."""

    needs_texts: bool
    """Whether it reads the texts of observations; without it they are not loaded, and each is empty."""

    def __call__(self, group: Group, rewards: PerTurn) -> Shaped:
        """Shaped rewards, of the same shape, or None where there is no score. Called off the event loop: it may wait,
        with a deadline.
        """


class GroupFilter(Stateful, Protocol):
    """Is a closed group worth training on?"""

    def reject(self, closed: GroupOutcome) -> str:
        """Why not; empty to keep it."""


class AdvantageEstimator(Stateful, Protocol):
    """Credit: what was each turn worth, against the other members?"""

    def __call__(self, rewards: PerTurn) -> PerTurn:
        """Advantages by turn, of the members whose status is an outcome."""


@dataclass(frozen=True, slots=True)
class TrainSample:
    """A sample with what the update needs to know of each token; sequences of the sample's length."""

    sample: Sample
    group: str
    source: Source
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]
    """0 where the token is not trained on: not sampled, swept for its age, or filtered."""
    staleness: NDArray[np.int32]
    """Updates between the version that sampled the token and the one being updated; -1 where not sampled."""


class SampleFilter(Stateful, Protocol):
    """Mask or weight inside an update. It never refills the batch."""

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        """The batch with other ``weights``."""


@dataclass(frozen=True, slots=True)
class LossInputs:
    """The trained tokens of one pass, flat: every tensor is float32 of shape (tokens,)."""

    logprobs: Tensor
    """Current log-probabilities, with gradient."""
    entropy: Tensor
    """Entropy of the current distribution at each token, in nats, with gradient."""
    proximal: Tensor
    behavior: Tensor
    advantages: Tensor
    weights: Tensor
    denominator: float
    """Sum of the weights over the whole optimizer step, before any rejection."""


class PolicyLoss(Stateful, Protocol):
    """The objective. ``accepts`` names the sources of tokens it takes."""

    accepts: Collection[Source]

    def __call__(self, inputs: LossInputs) -> tuple[Tensor, dict[str, Tensor]]:
        """This pass's share of the loss (a scalar, already over the denominator), and sums of metrics over its
        tokens.
        """


class ProximalPolicy(Stateful, Protocol):
    """Where the proximal log-probabilities come from."""

    needs_pass: bool
    """Whether a pass without gradient must score the batch before its first optimizer step, when there are several."""

    def logprobs(self, current: Tensor, behavior: Tensor) -> Tensor:
        """Proximal log-probabilities, detached. ``current`` is the policy at the start of the update."""

    def after_step(self, model: Module) -> None:
        """Called after each optimizer step."""


class ReplayPolicy(Stateful, Protocol):
    """What is re-used?"""

    def mix(self, fresh: Sequence[Group], rng: Random) -> list[Group]:
        """The groups of the batch; re-used ones added or put in place of fresh ones."""


class Admission(Stateful, Protocol):
    """When? How many groups may open now."""

    def capacity(self, counts: Mapping[GroupState, int], *, max_running: int, staleness: int, batch: int) -> int:
        """Groups to open, from the store's count of groups by state."""
