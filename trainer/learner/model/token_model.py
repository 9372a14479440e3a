"""A trainable copy of the reference policy that scores the sampled tokens of trajectories (``TokenModel``).

* Each sampled token is scored once: a message on several paths in its first path, and the turns that a branch shares
  with its parent in the parent.
* A step is exact for any scalar function of the log-probabilities, in the memory of one micro-batch: a first pass
  computes all log-probabilities and the gradient of the function in each of them, and a second pass adds, micro-batch
  by micro-batch, the gradient of their weighted sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ....errors import TurnwiseError
from ....records import Trajectory
from ...algorithms.advantages.base import TokenLogprobs
from ...algorithms.groups import TrainSample
from ...config.sections import LearnerConfig
from ..optimizer import optimizer_tensors, set_optimizer_tensors
from ..packing import MicroBatch, pack, split_micro_batches
from ..samples import samples
from .token_scores import TokenScorer, score_with


@dataclass(frozen=True, slots=True)
class _Packed:
    """Trajectories as micro-batches, and the way back from their tokens to turns."""

    micro_batches: Sequence[MicroBatch]
    counts: Sequence[Sequence[int]]
    """Scored tokens per trajectory and turn."""
    order: Tensor
    """int64 (tokens,): position of each token in the micro-batches, in the order of trajectory, turn and message."""

    def by_turn(self, flat: Tensor) -> list[list[Tensor]]:
        """Return values (tokens,) in the order of the micro-batches by trajectory and turn."""
        sizes = [count for turns in self.counts for count in turns]
        parts = iter(torch.split(flat[self.order], sizes))
        return [[next(parts) for _ in turns] for turns in self.counts]


class LocalTokenModel:
    """The copy in this process; implements ``TokenModel`` with AdamW, without weight decay."""

    def __init__(self, reference: TokenScorer, config: LearnerConfig) -> None:
        """Copy the model of ``reference``, the frozen reference policy."""
        self._reference = reference
        self._scorer = deepcopy(reference).requires_grad_(True)
        self._model = self._scorer.model
        self._config = config
        self._optimizer = torch.optim.AdamW(self._model.parameters(), betas=config.betas, weight_decay=0.0, fused=True)

    def logprobs(self, trajectories: Sequence[Trajectory]) -> TokenLogprobs:
        """Return the log-probabilities under this model, without gradient."""
        return self._score(self._scorer, trajectories)

    def reference_logprobs(self, trajectories: Sequence[Trajectory]) -> TokenLogprobs:
        """Return the log-probabilities under the reference policy, without gradient."""
        return self._score(self._reference, trajectories)

    def step(
        self, trajectories: Sequence[Trajectory], loss: Callable[[TokenLogprobs], Tensor], learning_rate: float
    ) -> float:
        """Take one optimizer step on ``loss``, with the gradient clipped to ``learner.max_grad_norm``.

        Returns:
            The loss before the step.

        Raises:
            TurnwiseError: the loss or its gradient is not finite; the step is not applied.
        """
        packed = self._pack(trajectories)
        sizes = [len(micro_batch.targets) for micro_batch in packed.micro_batches]
        values = [score_with(self._scorer, micro_batch).cpu() for micro_batch in packed.micro_batches]
        if not values:
            return 0.0
        flat = torch.cat(values).requires_grad_(True)
        result = loss(packed.by_turn(flat))
        (weights,) = torch.autograd.grad(result, flat)
        self._optimizer.zero_grad(set_to_none=True)
        for one, weight in zip(packed.micro_batches, torch.split(weights, sizes), strict=True):
            (weight * self._scorer(one).logprobs.cpu()).sum().backward()
        total = float(result.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._config.max_grad_norm))
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise TurnwiseError(
                f"loss {total} with gradient norm {norm} of the token model: the step is not applied; lower "
                "`advantage.learning_rate` and run again with `--fork`"
            )
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return total

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights and AdamW's moments by name."""
        weights = {f"weights/{name}": value.detach() for name, value in self._model.named_parameters()}
        moments = optimizer_tensors(self._model, self._optimizer)
        return weights | {f"optimizer/{name}": value for name, value in moments.items()}

    def load_tensors(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the weights and AdamW's moments."""
        with torch.no_grad():
            for name, value in self._model.named_parameters():
                value.copy_(tensors[f"weights/{name}"])
        prefix = "optimizer/"
        moments = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        set_optimizer_tensors(self._model, self._optimizer, moments)

    def _score(self, scorer: TokenScorer, trajectories: Sequence[Trajectory]) -> TokenLogprobs:
        packed = self._pack(trajectories)
        values = [score_with(scorer, micro_batch).cpu() for micro_batch in packed.micro_batches]
        return packed.by_turn(torch.cat(values) if values else torch.zeros(0))

    def _pack(self, trajectories: Sequence[Trajectory]) -> _Packed:
        """Return the own tokens of the trajectories in micro-batches, none of which splits a path."""
        made: list[TrainSample] = []
        owners: list[int] = []
        for owner, trajectory in enumerate(trajectories):
            for sample in samples(trajectory):
                weights = (sample.sources >= 0).astype(np.float32)
                zeros = np.zeros(len(weights))
                values, ages = zeros.astype(np.float32), zeros.astype(np.int32)
                made.append(TrainSample(sample, trajectory.group, values, weights, ages))
                owners.append(owner)
        parts = split_micro_batches([len(one.weights) for one in made], self._config.max_tokens_per_micro_batch)
        micro_batches = [pack([made[index] for index in part], self._config.device) for part in parts]
        packed = [index for part in parts for index in part]
        made, owners = [made[index] for index in packed], [owners[index] for index in packed]
        turns = [micro_batch.turns.cpu().numpy() for micro_batch in micro_batches]
        flat_turns = np.concatenate([np.zeros(0, np.int64), *turns])
        sizes = [int(np.count_nonzero(one.weights[1:])) for one in made]
        flat_owners = np.repeat(np.asarray(owners, np.int64), sizes)
        positions = [one.sample.positions[1:][one.weights[1:] != 0] for one in made]
        order = np.lexsort((np.concatenate([np.zeros(0, np.int32), *positions]), flat_turns, flat_owners))
        counts = [
            np.bincount(flat_turns[flat_owners == owner], minlength=len(trajectory.steps)).tolist()
            for owner, trajectory in enumerate(trajectories)
        ]
        return _Packed(micro_batches, counts, torch.as_tensor(order))
