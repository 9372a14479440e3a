"""The learner in this process: a Hugging Face causal language model, AdamW, and one update per batch.

* The learner owns the weights. It receives samples, and does not depend on episodes, groups or SQL.
* Logits are divided by the sampling temperature, as in the engine, so current and behavior log-probabilities are
  comparable.
* An optimizer step whose loss or gradient is not finite is rejected before it changes the weights.
"""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from ...errors import TurnwiseError
from ..algorithms.groups import TrainSample
from ..algorithms.losses.base import LossInputs, PolicyLoss
from ..algorithms.proximal.base import ProximalPolicy
from ..config.sections import LearnerConfig
from . import packed_attention as attention
from .packing import MicroBatch, pack, split_micro_batches

STEP_METRICS = ("loss", "grad_norm", "step_scale")
"""Metrics per optimizer step; the others are sums over trained tokens."""
MAX_BACKTRACKS = 3
"""Most times that one optimizer step is shortened."""

logging.disable_progress_bar()


class NonFiniteLoss(TurnwiseError):
    """The loss or its gradient is NaN or infinite."""


def token_logprobs(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities of the targets and the entropies, in nats.

    Args:
        logits: (m, vocabulary).
        targets: int64 (m,).

    Returns:
        Two tensors of shape (m,), in float32 or the wider dtype of ``logits``.
    """
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    return logp.gather(-1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


class Learner:
    """Weights, optimizer and update of a policy."""

    def __init__(
        self, model: str | Path, config: LearnerConfig, loss: PolicyLoss, proximal: ProximalPolicy, temperature: float
    ) -> None:
        """Load the weights of the folder ``model`` in float32. ``temperature`` is the sampling temperature."""
        torch.set_num_threads(config.num_threads)
        self.config = config
        self.loss = loss
        self.proximal = proximal
        self.temperature = temperature
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.float32, attn_implementation=attention.NAME, local_files_only=True
        ).to(config.device)
        self.model.eval()
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.learning_rate, betas=config.betas, weight_decay=config.weight_decay
        )

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Return the parameters by their names in the Hugging Face checkpoint; a tied matrix appears once."""
        return list(self.model.named_parameters())

    def compute_logprobs(self, micro_batch: MicroBatch, *, gradient: bool = True) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of the trained tokens and their entropies, in nats. Shapes (m,)."""
        context: AbstractContextManager[Any] = nullcontext() if gradient else torch.no_grad()
        with context, attention.packed(micro_batch.lengths):
            logits = self.model(
                input_ids=micro_batch.token_ids,
                position_ids=micro_batch.position_ids,
                use_cache=False,
                logits_to_keep=micro_batch.logit_positions,
            ).logits[0]
            return token_logprobs(logits / self.temperature, micro_batch.targets)

    def update(self, samples: Sequence[TrainSample], lr_progress: float, update: int) -> dict[str, float]:
        """Train on a batch and return its metrics by name.

        Args:
            samples: the batch, in ``num_minibatches`` optimizer steps of whole samples, in order.
            lr_progress: share of the learning rate schedule that has passed, 0 to 1.
            update: updates done before this one; the rate rises over the first ``lr_warmup_steps``.

        Raises:
            NonFiniteLoss: the loss or gradient of an optimizer step is NaN or infinite. That step is not applied; the
                steps before it are.
        """
        rate = self._set_learning_rate(lr_progress, update)
        config = self.config
        minibatches = [
            [pack(part, config.device) for part in split_micro_batches(minibatch, config.max_tokens_per_micro_batch)]
            for minibatch in split_minibatches(samples, config.num_minibatches)
            if minibatch
        ]
        proximal: list[list[Tensor | None]] = [[None] * len(minibatch) for minibatch in minibatches]
        if len(minibatches) > 1 and self.proximal.needs_forward_pass:
            proximal = [[self.compute_logprobs(one, gradient=False)[0] for one in part] for part in minibatches]
        totals: dict[str, float] = {}
        for number, (minibatch, logprobs) in enumerate(zip(minibatches, proximal, strict=True), 1):
            name = f"optimizer step {number} of {len(minibatches)}"
            for key, value in self._optimizer_step(minibatch, logprobs, name).items():
                totals[key] = totals.get(key, 0.0) + value
        tokens = sum(float((one.weights > 0).sum()) for minibatch in minibatches for one in minibatch)
        means = {key: value / max(tokens, 1.0) for key, value in totals.items() if key not in STEP_METRICS}
        return {
            **means,
            **{key: totals.get(key, 0.0) / max(len(minibatches), 1) for key in STEP_METRICS},
            "learning_rate": rate,
            "tokens": tokens,
        }

    def _set_learning_rate(self, lr_progress: float, update: int) -> float:
        """Set and return the learning rate: a linear rise, and a quadratic decay to ``min_learning_rate``."""
        config = self.config
        rate = config.learning_rate + lr_progress**2 * (config.min_learning_rate - config.learning_rate)
        rate *= min(1.0, (update + 1) / (config.lr_warmup_steps + 1))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _optimizer_step(
        self, micro_batches: Sequence[MicroBatch], start_logprobs: Sequence[Tensor | None], name: str
    ) -> dict[str, float]:
        """Accumulate the gradient over the micro-batches, apply one optimizer step, and return sums of its metrics.

        Args:
            start_logprobs: per micro-batch, the log-probabilities at the start of the update; None if they are the
                current ones.
            name: names the step in an error.

        Raises:
            NonFiniteLoss: the loss or the gradient is NaN or infinite; the step is not applied.
        """
        denominator = sum(float(one.weights.sum()) for one in micro_batches)
        totals: dict[str, float] = {"loss": 0.0}
        before: list[Tensor] = []
        self.optimizer.zero_grad(set_to_none=True)
        for one, start in zip(micro_batches, start_logprobs, strict=True):
            if not len(one.targets):
                continue
            current, entropy = self.compute_logprobs(one)
            before.append(current.detach())
            loss, metrics = self.loss(
                LossInputs(
                    logprobs=current,
                    entropy=entropy,
                    proximal=self.proximal.logprobs(current if start is None else start, one.behavior_logprobs),
                    behavior=one.behavior_logprobs,
                    advantages=one.advantages,
                    weights=one.weights,
                    denominator=max(denominator, 1e-8),
                )
            )
            loss.backward()  # type: ignore[no-untyped-call]
            totals["loss"] += float(loss.detach())
            for key, value in metrics.items():
                totals[key] = totals.get(key, 0.0) + float(value)
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm))
        if not (math.isfinite(norm) and math.isfinite(totals["loss"])):
            self.optimizer.zero_grad(set_to_none=True)
            raise NonFiniteLoss(
                f"loss {totals['loss']} with gradient norm {norm} in {name} of the batch: the step is not applied, and "
                "the run resumes from its last checkpoint; lower `learner.learning_rate` and run again with `--fork`"
            )
        max_kl = self.config.max_kl if before else None
        weights = [one.detach().clone() for one in self.model.parameters()] if max_kl else []
        self.optimizer.step()
        scale = self._backtrack(micro_batches, before, weights, max_kl) if max_kl else 1.0
        self.proximal.after_step(self.model)
        return {**totals, "grad_norm": norm, "step_scale": scale}

    def _backtrack(
        self,
        micro_batches: Sequence[MicroBatch],
        logprobs: Sequence[Tensor],
        weights: Sequence[Tensor],
        max_kl: float,
    ) -> float:
        """Shorten an optimizer step that exceeds the KL bound, and return the scale of the step that remains.

        A backtracking line search as in TRPO (Schulman et al. 2015), on the step's own tokens. The KL divergence is
        that of Schulman's k3 estimator, in nats per token. It grows with the square of a small step, so the scale is
        the square root of ``max_kl / kl``. After a large step one search falls short, so it is repeated.

        Args:
            logprobs: per micro-batch with trained tokens, the log-probabilities before the step.
            weights: the parameters before the step.
        """
        trained = [one for one in micro_batches if len(one.targets)]
        scale = 1.0
        for _ in range(MAX_BACKTRACKS):
            log_ratios = torch.cat(
                [
                    self.compute_logprobs(one, gradient=False)[0] - before
                    for one, before in zip(trained, logprobs, strict=True)
                ]
            )
            kl = float((log_ratios.exp() - 1 - log_ratios).mean())
            if kl <= max_kl:
                break
            factor = math.sqrt(max_kl / kl)
            scale *= factor
            with torch.no_grad():
                for parameter, before in zip(self.model.parameters(), weights, strict=True):
                    parameter.lerp_(before, 1 - factor)
        return scale


def split_minibatches(samples: Sequence[TrainSample], count: int) -> list[list[TrainSample]]:
    """Return ``count`` lists of nearly equal length, with whole samples in order."""
    bounds = [round(i * len(samples) / count) for i in range(count + 1)]
    return [list(samples[start:end]) for start, end in pairwise(bounds)]
