"""PPO-EWMA's proximal policy (Hilton, Cobbe and Schulman 2022, arXiv:2110.00641): a moving average of the weights.

After every optimizer step, ``W <- beta W + 1`` and ``average <- average beta W_old / W_new + weights / W_new``, from
``W = 1`` and the weights at the start of training (``openai/ppo-ewma``). The mean age of the weights in the average
approaches ``beta / (1 - beta)`` optimizer steps. The paper's objective, with its ratios to the behavior policy, is that
of ``decoupled_ppo`` without a cap.

The average costs a second copy of the weights in memory and in every checkpoint, and one more forward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field, PrivateAttr

from .base import ProximalPolicy, ProximalTokens, Score, Weights

if TYPE_CHECKING:
    from torch import Tensor


class EWMA(ProximalPolicy):
    """The model whose weights are an exponentially weighted moving average over the optimizer steps."""

    beta: float = Field(0.889, ge=0, lt=1)
    """Decay of the average per optimizer step; 0 is the policy before the present step."""

    remembered: ClassVar[tuple[str, ...]] = ("_total",)

    _average: dict[str, Tensor] = PrivateAttr(default_factory=dict)
    _total: float = PrivateAttr(1.0)
    """Sum of the decayed weights of all optimizer steps."""

    def start_update(self, weights: Weights) -> None:
        """Start the average from the weights of the first update; place a restored average on their devices."""
        before = self._average or weights
        self._average = {
            name: before[name].detach().to(value.device, copy=before is weights) for name, value in weights.items()
        }

    def logprobs(self, tokens: ProximalTokens, score: Score) -> Tensor:
        """Return the log-probabilities under the average."""
        return score(self._average)

    def after_step(self, weights: Weights) -> None:
        """Add the weights to the average."""
        self._total = self.beta * self._total + 1
        for name, average in self._average.items():
            average.lerp_(weights[name].detach(), 1 / self._total)

    def tensors(self) -> dict[str, Tensor]:
        """Return the average by the names of the parameters; empty before the first update."""
        return dict(self._average)

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the average."""
        self._average = dict(tensors)
