"""The base class of proximal policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ..component import Component

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


class ProximalPolicy(Component, ABC):
    """The source of the proximal log-probabilities."""

    slot: ClassVar[str] = "proximal"
    default: ClassVar[str] = "recompute"

    needs_forward_pass: ClassVar[bool] = False
    """Whether a batch of several optimizer steps is scored without gradient before the first step."""

    @abstractmethod
    def logprobs(self, current: Tensor, behavior: Tensor) -> Tensor:
        """Return the proximal log-probabilities, detached. ``current`` is the policy at the start of the update."""

    def after_step(self, model: Module) -> None:
        """Observe the model after an optimizer step."""
