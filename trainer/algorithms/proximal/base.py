"""The base class of proximal policies, and the tokens they score."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from ..component import Component

if TYPE_CHECKING:
    from torch import Tensor

Weights: TypeAlias = "Mapping[str, Tensor]"
"""Parameters by name."""
Score: TypeAlias = "Callable[[Weights], Tensor]"
"""Returns the log-probabilities of the tokens under the model with these weights, without gradient; one forward
pass."""


@dataclass(frozen=True, slots=True)
class ProximalTokens:
    """The trained tokens of one micro-batch, flat: every tensor has the shape (tokens,) and no gradient."""

    ids: Tensor
    """int64: token ids."""
    versions: Tensor
    """int64: id of the version that sampled the token; -1 if no version did."""
    staleness: Tensor
    """int64: updates between that version and the version being updated; 0 if no version sampled the token."""
    behavior: Tensor
    """float32: log-probabilities under the policy that sampled the token; the current ones if no version did."""
    current: Tensor
    """float32: current log-probabilities, those of the present optimizer step."""
    start: Tensor | None
    """float32: log-probabilities at the start of the update; None without ``ProximalPolicy.needs_start``."""


class ProximalPolicy(Component, ABC):
    """The source of the proximal log-probabilities."""

    slot: ClassVar[str] = "proximal"
    default: ClassVar[str] = "recompute"

    needs_start: ClassVar[bool] = False
    """Whether ``ProximalTokens.start`` is read. A batch of several optimizer steps costs one more forward pass."""

    @property
    def reads_weights(self) -> bool:
        """Whether the policy keeps separate weights, with which the learner then scores."""
        own = type(self)
        return (own.start_update, own.after_step) != (ProximalPolicy.start_update, ProximalPolicy.after_step)

    def start_update(self, weights: Weights) -> None:
        """Read the model's weights before the first optimizer step of an update. They change in place later."""

    @abstractmethod
    def logprobs(self, tokens: ProximalTokens, score: Score) -> Tensor:
        """Return the proximal log-probabilities, without gradient. float32 (tokens,)."""

    def after_step(self, weights: Weights) -> None:
        """Read the model's weights after an optimizer step. They change in place later."""
