"""Behavior cloning: the negative log-likelihood of actions from elsewhere.

Source: Pomerleau 1991, "Efficient training of artificial neural networks for autonomous navigation".

The tokens are those of demonstrations (``replay_buffer.name = "demonstrations"``) and of patched turns. Tokens that the
policy sampled are context. The log-probabilities are those at the sampling temperature, as in every loss.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from pydantic import Field

from ....records import Source
from ._aggregation import Aggregation, aggregate
from .base import LossOutput, Metric, Need, PolicyLoss, TokenBatch


class BehaviorCloning(PolicyLoss):
    """Negative log-likelihood of the actions of experts and patches; advantages are not read."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.EXPERT, Source.PATCH})
    requires: ClassVar[Collection[Source]] = frozenset({Source.EXPERT})

    aggregation: Aggregation = "token_mean"
    """The denominator: ``token_mean``, ``sequence_mean`` (GRPO), or ``constant`` (Dr. GRPO)."""
    max_tokens: int | None = Field(None, ge=1)
    """The constant per sequence that ``aggregation = "constant"`` divides by. Default: the budget of an episode,
    `horizon.max_tokens_per_episode`."""

    @property
    def needs(self) -> frozenset[Need]:
        """Return the entropy, for its metric."""
        return frozenset({Need.ENTROPY})

    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return the negative log-likelihood over the denominator, and metrics."""
        trained = batch.weights > 0
        metrics = {"nll": Metric(-batch.logprobs[trained]), "entropy": Metric(batch.entropy[trained])}
        return LossOutput(aggregate(batch, -batch.logprobs, self.aggregation, self.max_tokens), metrics)
