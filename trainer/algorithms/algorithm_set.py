"""The components of a run: their choice, checked when the configuration is loaded, and the live components."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, Field, PrivateAttr, SerializeAsAny, model_validator

from ...records import ScoredGroup
from .advantages.base import AdvantageEstimator
from .component import Component
from .group_filters.base import GroupFilter
from .group_sizes.base import GroupSize
from .horizons.base import HorizonSchedule
from .losses.base import Need, PolicyLoss
from .prompt_prefixes.base import PromptPrefix
from .proximal.base import ProximalPolicy
from .replay.base import ReplayBuffer
from .rewards.base import RewardShaper
from .rollout_control.base import RolloutController
from .sample_filters.base import SampleFilter
from .task_samplers.base import TaskSampler

if TYPE_CHECKING:
    from torch import Tensor

SLOTS: tuple[type[Component], ...] = (
    TaskSampler,
    GroupSize,
    PromptPrefix,
    HorizonSchedule,
    RolloutController,
    RewardShaper,
    GroupFilter,
    AdvantageEstimator,
    SampleFilter,
    PolicyLoss,
    ProximalPolicy,
    ReplayBuffer,
)
"""The base class of every slot; ``slot`` is the name of its field."""


def _default_group_filters() -> list[GroupFilter]:
    return [GroupFilter.build({"name": "zero_variance"})]


class AlgorithmConfig(BaseModel):
    """The choice of one component per slot, or of a list of them, with their options.

    These components hold values only. ``AlgorithmSet`` holds those of a run, which learn.
    """

    task_sampler: SerializeAsAny[TaskSampler] = Field(default_factory=TaskSampler.build_default)
    """Selects the task of each group."""
    group_size: SerializeAsAny[GroupSize] = Field(default_factory=GroupSize.build_default)
    """The number of episodes of each group; `rollout.group_size` is the usual one."""
    prompt_prefix: SerializeAsAny[PromptPrefix] = Field(default_factory=PromptPrefix.build_default)
    """The text before the environment's instructions."""
    horizon: SerializeAsAny[HorizonSchedule] = Field(default_factory=HorizonSchedule.build_default)
    """The limits of an episode, in turns and tokens."""
    rollout_control: SerializeAsAny[RolloutController] = Field(default_factory=RolloutController.build_default)
    """Decides how many members a group opens, and which of them continue after each turn."""
    rewards: list[SerializeAsAny[RewardShaper]] = Field(default_factory=list)
    """Changes to the per-turn rewards of the environment, applied in order."""
    group_filters: list[SerializeAsAny[GroupFilter]] = Field(default_factory=_default_group_filters)
    """Decide whether a closed group is trained on; the first rejection counts."""
    advantage: SerializeAsAny[AdvantageEstimator] = Field(default_factory=AdvantageEstimator.build_default)
    """The advantage of each turn, compared with the other members of its group."""
    sample_filters: list[SerializeAsAny[SampleFilter]] = Field(default_factory=list)
    """Change the weights of the tokens of an update, applied in order."""
    loss: SerializeAsAny[PolicyLoss] = Field(default_factory=PolicyLoss.build_default)
    """The objective of an update."""
    proximal: SerializeAsAny[ProximalPolicy] = Field(default_factory=ProximalPolicy.build_default)
    """The policy that anchors the clip range."""
    replay_buffer: SerializeAsAny[ReplayBuffer] = Field(default_factory=ReplayBuffer.build_default)
    """Selects stored groups that are trained on again."""

    @model_validator(mode="after")
    def _check_replay(self) -> Self:
        if reason := self.replay_buffer.conflict(self.loss, self.group_filters):
            raise ValueError(reason)
        return self

    @property
    def scoring_needs_texts(self) -> bool:
        """Whether a component reads the texts of observations when a group is scored or observed."""
        return any(one.needs_texts for _, one in self.components())

    @property
    def needs_reference(self) -> bool:
        """Whether a component needs the reference policy."""
        return Need.REFERENCE in self.loss.needs or self.advantage.needs_token_model

    def components(self) -> Iterator[tuple[str, Component]]:
        """Yield every component with its key: the slot, and the index in slots that hold a list."""
        for base in SLOTS:
            value = getattr(self, base.slot)
            if isinstance(value, list):
                yield from ((f"{base.slot}.{index}", one) for index, one in enumerate(value))
            else:
                yield base.slot, value


class AlgorithmSet(AlgorithmConfig):
    """The components of one run: they keep their state here."""

    _observed: int = PrivateAttr(0)
    _drawn: int = PrivateAttr(0)

    @classmethod
    def of(cls, config: AlgorithmConfig) -> Self:
        """Build the components that a configuration chooses, without any state."""
        return cls(**{base.slot: _new(getattr(config, base.slot)) for base in SLOTS})

    @property
    def observed(self) -> int:
        """Number of the scoring after the last one that the components observed; a checkpoint stores it."""
        return self._observed

    @property
    def drawn(self) -> int:
        """Number of the draw after the last one that the task sampler made; a checkpoint stores it."""
        return self._drawn

    def count_draw(self, draw: int) -> None:
        """Record that the components chose the group of ``draw``."""
        self._drawn = draw + 1

    @property
    def has_observers(self) -> bool:
        """Whether any component learns from scored groups."""
        return any(type(one).observe is not Component.observe for _, one in self.components())

    def observe(self, number: int, scored: ScoredGroup) -> None:
        """Pass a group to every component; ``number`` is that of its scoring, which rises from call to call."""
        for _, one in self.components():
            with one.calling("observe"):
                one.observe(scored)
        self._observed = number + 1

    def component_metrics(self) -> dict[str, float]:
        """Return the metrics of every component, each under ``<slot>/<name>``, with the index in slots of a list."""
        return {f"{key}/{name}": value for key, one in self.components() for name, value in one.metrics().items()}

    def component_states(self) -> dict[str, Any]:
        """Return the state of every component, as JSON values."""
        return {key: one.state_dict() for key, one in self.components()}

    def load_component_states(self, states: Mapping[str, Any], observed: int, drawn: int) -> None:
        """Restore the states that ``component_states`` returned, and the values of ``observed`` and ``drawn`` that
        belong to them.
        """
        self._observed, self._drawn = observed, drawn
        for key, one in self.components():
            one.load_state_dict(states.get(key, {}))

    def component_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of every component, by ``key/name``."""
        return {f"{key}/{name}": value for key, one in self.components() for name, value in one.tensors().items()}

    def load_component_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the tensors that ``component_tensors`` returned."""
        for key, one in self.components():
            prefix = f"{key}/"
            one.load_tensors({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})


def _new(chosen: Any) -> Any:
    """Return new components with the options of ``chosen``: a copy would share or copy what a component has opened."""
    if isinstance(chosen, Component):
        return type(chosen)(**{name: deepcopy(getattr(chosen, name)) for name in type(chosen).model_fields})
    return [_new(one) for one in chosen]
