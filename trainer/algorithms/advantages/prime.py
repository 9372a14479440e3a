"""PRIME (Cui et al. 2025, arXiv:2502.01456): a process reward per token, learned from outcomes during the run.

A process reward model ``phi``, a copy of the reference policy at first, defines the reward of token ``y_t`` as
``r_t = beta * (log phi(y_t) - log reference(y_t))``. Per update, in this order:

1. ``phi`` takes one optimizer step on the cross-entropy between ``sigmoid(sum_t r_t)`` and the outcome of the
   trajectory, 0 or 1.
2. The updated ``phi`` scores the batch. The process rewards are divided by their largest sum over the end of a
   trajectory (``prime_norm = "batch_norm"`` in the paper's recipe, verl's ``recipe/prime``).
3. Leave-one-out baselines (RLOO), one per source of rewards: in a group of ``n`` trajectories, ``r`` becomes
   ``r * n / (n - 1) - sum_j mean_j / (n - 1)``, where ``mean_j`` is the mean over the rewarded tokens of trajectory
   ``j``. The last token alone has the outcome as its reward.
4. The advantage of a token is the sum of both sources over the token and the later ones of its trajectory, whitened
   over all tokens of the batch.

The trajectory of a branch is its whole path, with the turns that it shares; each token is scored and whitened once.
Unlike in the recipe, the last token of a trajectory has a process reward as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field, PrivateAttr

from ....records import SUCCESS_RETURN, ScoredGroup
from ..groups import Credit, successes, whole_paths
from ._returns import Values, largest_sum, leave_one_out, sums_to_go
from .base import AdvantageEstimator, TokenLogprobs

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-6
"""Added to a number by which rewards or advantages are divided."""


def outcome_loss(scores: Sequence[Tensor], outcomes: Sequence[bool]) -> Tensor:
    """Return the mean cross-entropy between ``sigmoid(score)`` and the outcome. All are scalars."""
    losses = [s.clamp(min=0) - s * won + (-s.abs()).exp().log1p() for s, won in zip(scores, outcomes, strict=True)]
    return sum(losses[1:], losses[0]) / len(losses)


class PRIME(AdvantageEstimator):
    """Outcome and learned process reward per token, each with a leave-one-out baseline, whitened over the batch."""

    beta: float = Field(0.05, gt=0)
    """Scale of the process reward."""
    learning_rate: float = Field(1e-6, gt=0)
    """Learning rate of the process reward model."""
    process_weight: float = Field(1.0, ge=0)
    """Weight of the process reward; that of the outcome is 1."""
    normalize: bool = True
    """Divide the process rewards by their largest sum, so that they stay comparable to the outcome."""
    min_return: float = SUCCESS_RETURN
    """Return from which a completed episode counts as a success if its environment gives no verdict."""

    needs_token_model: ClassVar[bool] = True

    _metrics: dict[str, float] = PrivateAttr(default_factory=dict)

    def __call__(self, groups: Sequence[ScoredGroup]) -> list[Credit]:
        """Update the process reward model, and return one advantage per token."""
        import torch

        members = [trajectory for scored in groups for trajectory in scored.group.trajectories]
        if not members:
            return [[] for _ in groups]
        outcomes = [won for scored in groups for won in successes(scored, self.min_return)]
        reference = self.token_model.reference_logprobs(members)

        def process_rewards(logprobs: TokenLogprobs) -> list[list[Tensor]]:
            pairs = [zip(*turns, strict=True) for turns in zip(logprobs, reference, strict=True)]
            return whole_paths([[self.beta * (new - old) for new, old in turns] for turns in pairs], members)

        def scores(logprobs: TokenLogprobs) -> list[Tensor]:
            return [torch.cat([torch.zeros(0), *turns]).sum() for turns in process_rewards(logprobs)]

        loss = self.token_model.step(members, lambda new: outcome_loss(scores(new), outcomes), self.learning_rate)
        logprobs = self.token_model.logprobs(members)
        right = [float((score > 0) == won) for score, won in zip(scores(logprobs), outcomes, strict=True)]
        self._metrics = {"process_reward_loss": loss, "process_reward_accuracy": sum(right) / len(right)}

        paths = [[turn.double().numpy() for turn in turns] for turns in process_rewards(logprobs)]
        scale = largest_sum([_flat(turns) for turns in paths]) + EPSILON if self.normalize else 1.0
        left, own = iter(paths), iter(logprobs)
        credit = [self._of_group(scored, [next(left) for _ in scored.rewards], scale) for scored in groups]
        return _whitened([[_own(turns, next(own)) for turns in of_group] for of_group in credit])

    def metrics(self) -> dict[str, float]:
        """Return the loss of the last step, and the share of trajectories whose outcome the updated model predicts."""
        return dict(self._metrics)

    def _of_group(self, scored: ScoredGroup, process: Sequence[Sequence[Values]], scale: float) -> list[list[Values]]:
        """Return the advantages of a group before whitening, per turn of the whole path of each member."""
        outcome = leave_one_out([np.array([float(sum(turns))]) for turns in scored.rewards])
        flat = leave_one_out([_flat(turns) * (self.process_weight / scale) for turns in process])
        return [
            np.split(sums_to_go(values) + last, np.cumsum([len(turn) for turn in turns])[:-1])
            for values, last, turns in zip(flat, outcome, process, strict=True)
        ]


def _flat(turns: Sequence[Values]) -> Values:
    return np.concatenate([np.zeros(0), *turns])


def _own(turns: Sequence[Values], scored: Sequence[Tensor]) -> list[Values]:
    """Return the turns of a path without the values of the turns that the parent of a branch holds."""
    return [turn[: len(own)] for turn, own in zip(turns, scored, strict=False)]


def _whitened(credit: Sequence[Sequence[Sequence[Values]]]) -> list[Credit]:
    """Return the advantages with mean 0 and variance 1 over all tokens."""
    flat = _flat([turn for members in credit for turns in members for turn in turns])
    mean, scale = (flat.mean(), flat.std() + EPSILON) if len(flat) else (0.0, 1.0)
    return [[[((turn - mean) / scale).astype(np.float32) for turn in turns] for turns in members] for members in credit]
