"""The base class of policy losses, the tokens they are computed on, and the metrics they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from ....errors import TurnwiseError
from ....records import Source
from ..component import Component
from ..groups import TrainSample

if TYPE_CHECKING:
    from torch import Tensor

SOURCES = tuple(Source)
"""``TokenBatch.source`` holds indices into this tuple."""


class Need(StrEnum):
    """A tensor that costs time or memory; the learner computes it only for a loss that needs it."""

    ENTROPY = "entropy"
    """``TokenBatch.entropy``, without gradient."""
    ENTROPY_GRADIENT = "entropy_gradient"
    """``TokenBatch.entropy``, with gradient."""
    REFERENCE = "reference"
    """``TokenBatch.reference``: one more forward pass, and the weights of the reference policy in memory."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts over the whole optimizer step, before any rejection by the loss."""

    tokens: int
    """Tokens with a weight, which may be any number above 0."""
    episodes: int
    """Episodes with a trained token."""
    groups: int
    """Groups with a trained token."""

    @classmethod
    def of(cls, samples: Sequence[TrainSample], tokens: Sequence[int]) -> Totals:
        """Return the totals of samples with these numbers of trained tokens."""
        trained = [one for one, count in zip(samples, tokens, strict=True) if count]
        return cls(sum(tokens), len({one.episode for one in trained}), len({one.group for one in trained}))


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """The trained tokens of one micro-batch, flat: every tensor has the shape (tokens,) if not said otherwise.

    A sequence is one sample: a root-to-leaf path of a trajectory's messages. A sequence is never split over two
    micro-batches. An episode may have several sequences, because it branched or its context began again, and counts as
    one in every denominator: all of them are in the same optimizer step. ``sequence`` and ``group`` count from 0 over
    the whole optimizer step, in the order of the samples that ``PolicyLoss.prepare`` receives.
    """

    logprobs: Tensor
    """float32: current log-probabilities, with gradient."""
    proximal: Tensor
    """float32: log-probabilities under the proximal policy."""
    behavior: Tensor
    """float32: log-probabilities under the policy that sampled the token; the current ones, without gradient, where no
    policy of this run did."""
    advantages: Tensor
    """float32"""
    weights: Tensor
    """float32"""
    sequence: Tensor
    """int64: index of the token's sequence."""
    turn: Tensor
    """int64: index of the token's turn in its trajectory."""
    group: Tensor
    """int64: index of the token's group."""
    source: Tensor
    """int64: index of the token's source in ``SOURCES``."""
    staleness: Tensor
    """int64: updates between the version that sampled the token and the version being updated; 0 if no version did."""
    lengths: Tensor
    """int64 (sequences,): trained tokens per sequence of the whole optimizer step."""
    episode_lengths: Tensor
    """int64 (sequences,): trained tokens of the whole episode that the sequence belongs to."""
    totals: Totals
    needed: Mapping[Need, Tensor]
    """The tensors that the loss needs; ``entropy`` and ``reference`` read them."""

    @property
    def entropy(self) -> Tensor:
        """Return the entropy of the current distribution at each token, in nats. float32 (tokens,)."""
        return self._read(Need.ENTROPY_GRADIENT if Need.ENTROPY_GRADIENT in self.needed else Need.ENTROPY)

    @property
    def reference(self) -> Tensor:
        """Return the log-probabilities under the reference policy, without gradient. float32 (tokens,)."""
        return self._read(Need.REFERENCE)

    def from_source(self, source: Source) -> Tensor:
        """Return where a token has this source. bool (tokens,)."""
        return self.source == SOURCES.index(source)

    def sequence_mean(self, values: Tensor) -> Tensor:
        """Return at each token the mean of ``values`` (tokens,) over the trained tokens of its sequence. (tokens,)."""
        sums = values.new_zeros(len(self.lengths)).index_add(0, self.sequence, values)
        return sums[self.sequence] / self.lengths[self.sequence]

    def _read(self, need: Need) -> Tensor:
        if need not in self.needed:
            raise TurnwiseError(f"the loss reads `{need}` without declaring it: add `Need.{need.name}` to its `needs`")
        return self.needed[need]


@dataclass(frozen=True, slots=True)
class Metric:
    """Values of a metric in one micro-batch, and the reduction over all values of the update to one number."""

    values: Tensor
    """Any shape; detached by the learner."""
    reduction: Literal["sum", "mean", "max"] = "mean"


@dataclass(frozen=True, slots=True)
class LossOutput:
    """The result of a loss on one micro-batch."""

    loss: Tensor
    """Scalar: this micro-batch's share. The sum of all shares is the loss of the optimizer step."""
    metrics: Mapping[str, Metric]


def k3(log_ratio: Tensor) -> Tensor:
    """Return Schulman's k3 estimate ``r - 1 - log r`` of KL(p || q) per token; ``log_ratio`` is log q - log p.

    The estimate is never negative, and unbiased for tokens sampled from p (Schulman 2020, "Approximating KL
    divergence"; GRPO, Shao et al. 2024, equation 4).
    """
    return log_ratio.exp() - 1 - log_ratio


class PolicyLoss(Component, ABC):
    """The objective of an update."""

    slot: ClassVar[str] = "loss"
    default: ClassVar[str] = "decoupled_ppo"

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY})
    """Sources of the tokens that this loss is computed on; tokens of other sources have weight 0."""
    requires: ClassVar[Collection[Source]] = frozenset()
    """Of these, the sources that the replay buffer must add; without them there is nothing to train on."""

    @property
    def needs(self) -> frozenset[Need]:
        """Return the optional tensors that this loss reads; it may depend on the options."""
        return frozenset()

    def prepare(self, samples: Sequence[TrainSample]) -> None:
        """Read all samples of an optimizer step before its first micro-batch.

        A loss may keep here the statistics of the batch that its calls use, in private attributes.
        """

    @abstractmethod
    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return this micro-batch's share of the loss, already divided by ``batch.totals``, and metrics."""

    def lr_scale(self, metrics: Mapping[str, float]) -> float:
        """Return the factor of the learning rate for this optimizer step.

        Args:
            metrics: this loss's metrics, reduced over the optimizer step.
        """
        return 1.0


Aggregation = Literal["token_mean", "episode_mean", "constant"]
"""The denominator of a loss (``aggregate``)."""


def aggregate(batch: TokenBatch, values: Tensor, mode: Aggregation, max_tokens: int | None) -> Tensor:
    """Return this micro-batch's share of the loss: the weighted sum of ``values`` over one of three denominators.

    A weight changes the sum and no denominator: a token with a lower weight adds nothing to the others.

    * ``token_mean``: the trained tokens of the step, so that every token counts the same (DAPO, Yu et al. 2025,
      arXiv:2503.14476).
    * ``episode_mean``: the trained tokens of the episode, then the episodes of the step, so that every episode counts
      the same (GRPO, Shao et al. 2024, arXiv:2402.03300, whose episodes are single sequences).
    * ``constant``: ``max_tokens`` times the episodes of the step, so that the length of an episode changes no
      denominator (Dr. GRPO, Liu et al. 2025, arXiv:2503.20783, whose constant is the budget of tokens).

    Args:
        values: (tokens,).

    Raises:
        ValueError: ``constant`` without ``max_tokens``, which a run's configuration sets.
    """
    weighted = batch.weights * values
    if mode == "token_mean":
        return weighted.sum() / max(batch.totals.tokens, 1)
    episodes = max(batch.totals.episodes, 1)
    if mode == "episode_mean":
        return (weighted / batch.episode_lengths[batch.sequence]).sum() / episodes
    if max_tokens is None:
        raise ValueError('`aggregation = "constant"` needs `max_tokens`')
    return weighted.sum() / (max_tokens * episodes)


class AggregatedLoss(PolicyLoss, ABC):
    """A loss with one value per token, which ``aggregate`` sums up."""

    aggregation: Aggregation = "token_mean"
    """The denominator: ``token_mean``, ``episode_mean`` (GRPO), or ``constant`` (Dr. GRPO)."""
    max_tokens: int | None = Field(None, ge=1)
    """The constant per episode that ``aggregation = "constant"`` divides by. Default: the budget of an episode,
    `horizon.max_tokens_per_episode`."""
