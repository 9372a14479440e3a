"""Variance Controlled Policy Optimization (VCPO): the step shrinks with the effective sample size of the batch.

Source: Huang et al. 2026, arXiv:2602.17616, and its repository ``mit-han-lab/vcpo`` (a fork of verl:
``megatron_actor.py``, ``staleness_utils.py``); formulas below.

* The importance weight of sequence ``i`` is ``w_i = exp sum_t (log current - log behavior)``. The objective is the
  policy gradient with this weight, truncated at ``is_cap`` and without gradient: ``-min(w_i, cap) A_it log
  current_it``. The proximal policy is not read.
* The effective sample size of an optimizer step with ``B`` sequences, as a share of B, is ``ess = (sum w)^2 /
  (B sum w^2)`` with the weights before truncation. The learning rate of the step is multiplied by
  ``sqrt(min(1, ess / base_ess))`` and restored afterwards. On-policy, ``ess`` is 1.
* In the paper, a sequence is an episode. An episode whose context began again has several here, each with the weight of
  its own tokens: that of the whole episode would need all of them in one micro-batch. In both sums and in ``B``, such a
  sequence counts as its share of the trained tokens of its episode, so that the episode counts as one.

The paper's second part, a baseline that minimizes the variance of the gradient (OPOB), is not implemented.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from ....records import Source
from .base import AggregatedLoss, LossOutput, Metric, Need, TokenBatch, aggregate

if TYPE_CHECKING:
    from torch import Tensor

MAX_LOG_WEIGHT = 300.0
"""Bound of the logarithm of a sequence's weight, so that its square is finite in float64."""


def sequence_weights(batch: TokenBatch) -> Tensor:
    """Return the importance weight current/behavior of every sequence of the step, detached. float64 (sequences,).

    Sequences of other micro-batches have the weight 1.
    """
    log_ratio = (batch.logprobs - batch.behavior).detach().double()
    sums = log_ratio.new_zeros(len(batch.lengths)).index_add(0, batch.sequence, log_ratio)
    return sums.clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT).exp()


def _shares(batch: TokenBatch) -> Tensor:
    """Return the share of each sequence in the trained tokens of its episode, times the sequences per episode, so that
    the mean over the sequences of the step is one over its episodes. float64 (sequences,)."""
    per_episode = int((batch.lengths > 0).sum()) / max(batch.totals.episodes, 1)
    return batch.lengths.double() / batch.episode_lengths * per_episode


class VCPO(AggregatedLoss):
    """Truncated importance weights per sequence, and a learning rate scaled by the effective sample size."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY, Source.REPLAY})

    is_cap: float = Field(8.0, ge=1)
    """Cap of the importance weight of a sequence."""
    base_ess: float = Field(1.0, gt=0, le=1)
    """The effective sample size, as a share of the sequences, from which on the learning rate is not reduced."""

    @property
    def needs(self) -> frozenset[Need]:
        """Return the entropy, for its metric."""
        return frozenset({Need.ENTROPY})

    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return the loss over the denominator, and metrics."""
        weights = sequence_weights(batch)
        truncated = weights.clamp(max=self.is_cap).to(batch.logprobs.dtype)[batch.sequence]
        values = -truncated * batch.advantages * batch.logprobs
        present = batch.sequence.unique()  # type: ignore[no-untyped-call]
        here, share = weights[present], _shares(batch)[present]
        metrics = {
            "entropy": Metric(batch.entropy),
            "sequence_weight": Metric(share * here),
            "sequence_weight_square": Metric(share * here.square()),
            "sequence_weight_max": Metric(here, "max"),
            "is_cap_fraction": Metric(share * (here > self.is_cap)),
        }
        return LossOutput(aggregate(batch, values, self.aggregation, self.max_tokens), metrics)

    def lr_scale(self, metrics: Mapping[str, float]) -> float:
        """Return ``sqrt(min(1, ess / base_ess))`` of the optimizer step."""
        ess = metrics["sequence_weight"] ** 2 / metrics["sequence_weight_square"]
        return math.sqrt(min(1.0, ess / self.base_ess))
