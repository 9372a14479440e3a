"""Hybrid Post-Training (HPT, Lv et al. 2025, arXiv:2509.04419): per task, learn from rewards or from a demonstration.

``loss = RL if the success rate of the task's episodes > gamma, else SFT on its demonstrations`` (the paper's equation
for ``alpha`` and ``beta``; gamma is 0 for Qwen models). Both kinds of tokens may be in one batch. The RL term is that
of ``decoupled_ppo``. Each term is divided by the totals of the tokens that its side of the gate keeps in the optimizer
step, so neither dilutes the other; ``sft_coef`` weighs the second one.

* The demonstrations come from ``replay_buffer.name = "demonstrations"``. A demonstration of a task that the policy did
  not play in the batch adds nothing.
* A group in which every member fails is dropped by the default ``group_filters``; set them to ``[]``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from ....records import Source
from ..groups import TrainSample
from .base import SOURCES, LossOutput, Metric, TokenBatch, Totals
from .decoupled_ppo import DecoupledPPO

if TYPE_CHECKING:
    from torch import Tensor


class HPT(DecoupledPPO):
    """Decoupled PPO on tasks that the policy solves often enough, behavior cloning on the others."""

    accepts: ClassVar[Collection[Source]] = frozenset({Source.POLICY, Source.EXPERT})
    requires: ClassVar[Collection[Source]] = frozenset({Source.EXPERT})

    gamma: float = 0.0
    """The gate: a task whose success rate in the batch is above this value is trained on by RL, any other by SFT."""
    sft_coef: float = Field(1.0, ge=0)
    """Coefficient of the supervised term."""

    _solved: list[bool] = PrivateAttr(default_factory=list)
    """Per sequence of the optimizer step, whether its task is trained on by RL."""
    _unsolved: list[bool] = PrivateAttr(default_factory=list)
    """Per sequence of the optimizer step, whether its task is trained on by SFT."""
    _rl: Totals = PrivateAttr(Totals(0, 0, 0))
    """Totals of the tokens that are trained on by RL."""
    _sft_tokens: int = PrivateAttr(0)
    """Tokens that are trained on by SFT."""

    def prepare(self, samples: Sequence[TrainSample]) -> None:
        """Decide the side of each sample, and sum both sides over the optimizer step."""
        self._solved = [sample.task_success > self.gamma for sample in samples]
        self._unsolved = [sample.task_success <= self.gamma for sample in samples]
        rewarded = [one for one, solved in zip(samples, self._solved, strict=True) if solved]
        counts = [_tokens(one, Source.POLICY) for one in rewarded]
        self._rl = Totals.of(rewarded, counts)
        taught = (one for one, unsolved in zip(samples, self._unsolved, strict=True) if unsolved)
        self._sft_tokens = sum(_tokens(one, Source.EXPERT) for one in taught)

    def __call__(self, batch: TokenBatch) -> LossOutput:
        """Return the sum of both terms, each over its own denominator, and metrics."""
        rl_weights = batch.weights * self._kept(self._solved, batch) * batch.from_source(Source.POLICY)
        sft_weights = batch.weights * self._kept(self._unsolved, batch) * batch.from_source(Source.EXPERT)
        rl = super().__call__(replace(batch, weights=rl_weights, totals=self._rl))
        sft = -(sft_weights * batch.logprobs).sum() / max(self._sft_tokens, 1)
        taught = sft_weights > 0
        metrics = {
            "nll": Metric(-batch.logprobs[taught]),
            "sft_fraction": Metric(taught[taught | (rl_weights > 0)]),
        }
        return LossOutput(rl.loss + self.sft_coef * sft, {**rl.metrics, **metrics})

    def _kept(self, sides: Sequence[bool], batch: TokenBatch) -> Tensor:
        """Return 1 at the tokens of the sequences on this side, 0 elsewhere. Shape (tokens,)."""
        return batch.weights.new_tensor(sides)[batch.sequence]


def _tokens(sample: TrainSample, source: Source) -> int:
    """Return the number of a sample's trained tokens of this source; a first token is never trained on."""
    here = sample.sample.sources[1:] == SOURCES.index(source)
    return int(np.count_nonzero(sample.weights[1:][here]))
