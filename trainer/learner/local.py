"""The learner: a Hugging Face causal language model, AdamW, and one update a batch.

It owns the weights; it knows nothing of episodes, groups or SQL. Logits are divided by the sampling temperature, so
that the current log-probabilities are those of the distribution the engine sampled from. An update whose loss or
gradient is not finite is refused before it touches the weights.
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
from .packing import Pass, chunks, pack

PER_STEP = ("loss", "grad_norm", "step_share")
"""Metrics of a step rather than of its tokens."""
SHORTENINGS = 3
"""Times a step that went too far is shortened at most."""

logging.disable_progress_bar()


class NotFinite(TurnwiseError):
    """The loss or its gradient is NaN or infinite."""


def token_logprobs(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the targets and entropies, in nats, (m,) each, of logits (m, vocabulary)."""
    logp = logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)
    return logp.gather(-1, targets[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


class Learner:
    """Weights, optimizer, update."""

    def __init__(
        self, model: str | Path, config: LearnerConfig, loss: PolicyLoss, proximal: ProximalPolicy, temperature: float
    ) -> None:
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
        """Names as in the Hugging Face checkpoint; a tied matrix once."""
        return list(self.model.named_parameters())

    def score(self, one: Pass, *, gradient: bool = True) -> tuple[Tensor, Tensor]:
        """Log-probabilities of a pass's trained tokens and their entropies, float32 (m,)."""
        context: AbstractContextManager[Any] = nullcontext() if gradient else torch.no_grad()
        with context, attention.packed(one.lengths):
            logits = self.model(
                input_ids=one.ids, position_ids=one.positions, use_cache=False, logits_to_keep=one.at
            ).logits[0]
            return token_logprobs(logits / self.temperature, one.targets)

    def update(self, samples: Sequence[TrainSample], decay: float, update: int) -> dict[str, float]:
        """Train on a batch.

        Args:
            samples: the batch; cut into ``num_minibatches`` optimizer steps of whole samples, in order.
            decay: share of the learning rate's schedule that has passed, 0 to 1.
            update: updates done before; the rate rises over the first ``lr_warmup_steps``.

        Raises:
            NotFinite: the loss or gradient of an optimizer step is NaN or infinite; that step is not applied, and the
            steps of the batch before it are.
        """
        rate = self.config.learning_rate + decay**2 * (self.config.min_learning_rate - self.config.learning_rate)
        rate *= min(1.0, (update + 1) / (self.config.lr_warmup_steps + 1))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        steps = [part for part in split(samples, self.config.num_minibatches) if part]
        passes = [
            [pack(part, self.config.device) for part in chunks(step, self.config.max_tokens_per_micro_batch)]
            for step in steps
        ]
        anchors: list[list[Tensor | None]] = [[None] * len(step) for step in passes]
        if len(passes) > 1 and self.proximal.needs_pass:
            anchors = [[self.score(one, gradient=False)[0] for one in step] for step in passes]
        totals: dict[str, float] = {}
        for number, (step, anchor) in enumerate(zip(passes, anchors, strict=True), 1):
            for name, value in self._step(step, anchor, f"optimizer step {number} of {len(passes)}").items():
                totals[name] = totals.get(name, 0.0) + value
        tokens = sum(float((one.weights > 0).sum()) for step in passes for one in step)
        means = {name: value / max(tokens, 1.0) for name, value in totals.items() if name not in PER_STEP}
        return {
            **means,
            **{name: totals.get(name, 0.0) / max(len(passes), 1) for name in PER_STEP},
            "learning_rate": rate,
            "tokens": tokens,
        }

    def _step(self, passes: Sequence[Pass], anchors: Sequence[Tensor | None], name: str) -> dict[str, float]:
        denominator = sum(float(one.weights.sum()) for one in passes)
        totals: dict[str, float] = {"loss": 0.0}
        before: list[Tensor] = []
        self.optimizer.zero_grad(set_to_none=True)
        for one, anchor in zip(passes, anchors, strict=True):
            if not len(one.at):
                continue
            logprobs, entropy = self.score(one)
            before.append(logprobs.detach())
            proximal = self.proximal.logprobs(logprobs if anchor is None else anchor, one.behavior)
            loss, metrics = self.loss(
                LossInputs(
                    logprobs, entropy, proximal, one.behavior, one.advantages, one.weights, max(denominator, 1e-8)
                )
            )
            loss.backward()  # type: ignore[no-untyped-call]
            totals["loss"] += float(loss.detach())
            for key, value in metrics.items():
                totals[key] = totals.get(key, 0.0) + float(value)
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm))
        if not (torch.isfinite(torch.tensor([norm, totals["loss"]])).all()):
            self.optimizer.zero_grad(set_to_none=True)
            raise NotFinite(
                f"loss {totals['loss']} with gradient norm {norm} in {name} of the batch: the step is not applied, and "
                "the run resumes from its last checkpoint; lower `learner.learning_rate` and run again with `--fork`"
            )
        origin = [one.detach().clone() for one in self.model.parameters()] if self.config.max_kl else []
        self.optimizer.step()
        share = self._shorten(passes, before, origin, self.config.max_kl) if self.config.max_kl and before else 1.0
        self.proximal.after_step(self.model)
        return {**totals, "grad_norm": norm, "step_share": share}

    def _shorten(
        self, passes: Sequence[Pass], before: Sequence[Tensor], origin: Sequence[Tensor], limit: float
    ) -> float:
        """Go back along a step that moved the policy too far; the share of it that is kept.

        The divergence is measured on the step's own tokens. It grows with the square of a small step, hence the root;
        after a large one that falls short, so it is measured again.
        """
        trained = [one for one in passes if len(one.at)]
        kept = 1.0
        for _ in range(SHORTENINGS):
            gaps = torch.cat(
                [self.score(one, gradient=False)[0] - old for one, old in zip(trained, before, strict=True)]
            )
            moved = float((gaps.exp() - 1 - gaps).mean())
            if moved <= limit:
                break
            share = math.sqrt(limit / moved)
            kept *= share
            with torch.no_grad():
                for parameter, start in zip(self.model.parameters(), origin, strict=True):
                    parameter.lerp_(start, 1 - share)
        return kept


def split(samples: Sequence[TrainSample], parts: int) -> list[list[TrainSample]]:
    """``parts`` lists of nearly equal length, whole samples, in order."""
    bounds = [round(i * len(samples) / parts) for i in range(parts + 1)]
    return [list(samples[a:b]) for a, b in pairwise(bounds)]
