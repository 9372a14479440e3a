"""All extensions of a run, built from its configuration, and their state as one value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from ..config.schema import LISTS, RunConfig
from .protocols import (
    Admission,
    AdvantageEstimator,
    GroupFilter,
    HorizonSchedule,
    PolicyLoss,
    PromptScaffold,
    ProximalPolicy,
    ReplayPolicy,
    RewardShaper,
    RolloutBudget,
    RolloutController,
    SampleFilter,
    TaskSampler,
)
from .registry import build


@dataclass(frozen=True, slots=True)
class Extensions:
    """One field a slot."""

    task_sampler: TaskSampler
    prompt_scaffold: PromptScaffold
    rollout_budget: RolloutBudget
    horizon: HorizonSchedule
    rollout_controller: RolloutController
    reward_shapers: Sequence[RewardShaper]
    group_filters: Sequence[GroupFilter]
    advantage: AdvantageEstimator
    sample_filters: Sequence[SampleFilter]
    loss: PolicyLoss
    proximal: ProximalPolicy
    replay: ReplayPolicy
    admission: Admission

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Build every slot that the configuration fills."""
        made: dict[str, Any] = {}
        for field in fields(cls):
            choice = getattr(config, field.name)
            slot = LISTS.get(field.name)
            made[field.name] = [build(slot, one) for one in choice] if slot else build(field.name, choice)
        return cls(**made)

    def _all(self) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in LISTS:
                named |= {f"{field.name}.{index}": one for index, one in enumerate(value)}
            else:
                named[field.name] = value
        return named

    def state_dict(self) -> dict[str, Any]:
        """The state of every extension, as JSON values."""
        return {name: one.state_dict() for name, one in self._all().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what ``state_dict`` gave."""
        for name, one in self._all().items():
            one.load_state_dict(state.get(name, {}))
