"""Behavior cloning: the negative log-likelihood of actions from elsewhere.

Source: Pomerleau 1991, "Efficient training of artificial neural networks for autonomous navigation".

The tokens are those of demonstrations (``replay_buffer.name = "demonstrations"``) and of patched turns. Tokens that the
policy sampled are context. The log-probabilities are those at the sampling temperature, as in every loss.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from ....records import Source
from .base import AggregatedLoss, LossOutput, Metric, Need, TokenBatch, aggregate


class BehaviorCloning(AggregatedLoss):
    """Negative log-likelihood of the actions of experts and patches; advantages are not read."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.EXPERT, Source.PATCH})
    requires: ClassVar[Collection[Source]] = frozenset({Source.EXPERT})

    @property
    def needs(self) -> frozenset[Need]:
        """Return the entropy, for its metric."""
        return frozenset({Need.ENTROPY})

    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return the negative log-likelihood over the denominator, and metrics."""
        trained = batch.weights > 0
        metrics = {"nll": Metric(-batch.logprobs[trained]), "entropy": Metric(batch.entropy[trained])}
        return LossOutput(aggregate(batch, -batch.logprobs, self.aggregation, self.max_tokens), metrics)
