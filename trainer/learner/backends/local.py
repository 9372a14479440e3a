"""The learner in this process: a Hugging Face causal language model, AdamW, and one update per batch.

* The learner owns the weights. It receives samples, and does not depend on episodes, groups or SQL.
* Logits are divided by the sampling temperature, as in the engine, so current and behavior log-probabilities are
  comparable.
* An optimizer step whose loss or gradient is not finite is rejected before it changes the weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random

import numpy as np
import torch
from torch import Tensor

from ....agents.placement import own_node
from ....agents.weights.base import Link, WeightSender
from ....agents.weights.base import transport as transport_of
from ....agents.weights.source import ParameterSource
from ....base.process.freed_memory import return_freed_memory
from ....errors import TurnwiseError
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import Need, PolicyLoss, TokenBatch, k3
from ...algorithms.proximal.base import ProximalPolicy, ProximalTokens, Weights
from ...config.sections import LearnerConfig
from ..model.token_model import LocalTokenModel
from ..model.token_scores import TokenScorer, score_with
from ..optimizer import MetricReducer, backtrack, learning_rate, moments_on, move_moments, scaled_learning_rate
from ..packing import MicroBatch, Minibatch, pack_minibatch, split_minibatches, trained_tokens
from ..provenance.recording import LogprobTrace, weights_hash
from ..sft import SftExample, SupervisedSteps
from .ranks import ALONE, Ranks, policy_scorer, reference_scorer
from .state_files import load_optimizer_files, save_sharded_state, save_state

SHARED_METRICS = ("entropy", "clip_fraction", "is_cap_fraction", "behavior_kl", "reference_kl")
"""Names that mean the same in every loss; each other metric of a loss is ``loss/<name>``."""
STEP_METRICS = {"loss": 0.0, "grad_norm": 0.0, "step_scale": 1.0, "lr_scale": 1.0}
"""Metrics per optimizer step, with their values in an update without a step. An update reports their means."""


class NonFiniteLoss(TurnwiseError):
    """The loss or its gradient is NaN or infinite."""


class Learner:
    """Weights, optimizer and update of a policy."""

    def __init__(
        self,
        model: str | Path,
        config: LearnerConfig,
        loss: PolicyLoss,
        proximal: ProximalPolicy,
        temperature: float,
        ranks: Ranks = ALONE,
    ) -> None:
        """Load the weights of the folder ``model`` in float32; the frozen ones of an adapted model in ``config.dtype``.

        Args:
            model: folder of a model; with ``config.lora``, also of an adapter, which names that of its model.
            temperature: the sampling temperature.
            ranks: the ranks that train this model together; each has a learner and calls the same methods.
        """
        torch.set_num_threads(config.num_threads)
        self.config = config
        self.passed = [0, 0]
        self.loss = loss
        self.proximal = proximal
        self.temperature = temperature
        self._ranks = ranks
        self._scorer, self._adapter = policy_scorer(Path(model), config, temperature, ranks)
        self.model = self._scorer.model
        self._reference: TokenScorer | None = None
        self._supervised: SupervisedSteps | None = None
        self.optimizer = torch.optim.AdamW(
            [parameter for _, parameter in self.named_parameters()],
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
            fused=True,
        )

    def load_reference(self, folder: str | Path) -> None:
        """Load the frozen weights of the reference policy, for a loss or an advantage estimator that needs it.

        Raises:
            TurnwiseError: ``folder`` is not a model folder.
        """
        self._reference = reference_scorer(Path(folder), self.config, self.temperature, self._ranks)

    def token_model(self) -> LocalTokenModel:
        """Return a new trainable copy of the reference policy, for an advantage estimator that needs it.

        Raises:
            TurnwiseError: the reference policy is not loaded.
        """
        if self._reference is None:
            raise TurnwiseError("a token model is a copy of the reference policy: call `load_reference` first")
        return LocalTokenModel(self._reference, self.config)

    def fit(self, examples: Sequence[SftExample], learning_rate: float, observation_weight: float) -> float:
        """Take one supervised step, with an optimizer that the next update drops, and return the loss before it."""
        if self._supervised is None:
            self._supervised = SupervisedSteps(self._scorer, self.config.max_tokens_per_micro_batch, self._ranks.size)
        return self._supervised.step(examples, learning_rate, observation_weight)

    def node(self) -> str:
        """Return the Ray node of this process. Ray must be up."""
        return own_node()

    def weights(self, transport: str, link: Link) -> WeightSender:
        """Return this rank's sender of the weights.

        Raises:
            TurnwiseError: no transport has this name.
        """
        adapter = self._adapter
        parameters = self.named_parameters() if adapter is None else adapter.named_parameters()
        source = ParameterSource(parameters, self._ranks.whole, adapter.settings if adapter else None)
        return transport_of(transport).sender(source, link)

    def save(self, folder: Path) -> None:
        """Write the model in Hugging Face format, or its adapter in PEFT's, and the optimizer's state, into an existing
        folder.

        Raises:
            OSError, SafetensorError: a file could not be written.
        """
        if self._ranks.is_sharded:
            save_sharded_state(folder, self.model, self.optimizer, self._ranks, self._adapter)
        else:
            save_state(folder, self.model, self.optimizer, self._adapter)

    def load_optimizer(self, folder: Path) -> None:
        """Load the optimizer's state of a folder that ``save`` wrote, with any backend and number of ranks."""
        load_optimizer_files(folder, self.model, self.optimizer)
        if self.config.optimizer_offload:
            move_moments(self.optimizer, "cpu")

    def close(self) -> None:
        """Do nothing: the memory is this process's."""

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Return the trained parameters by their names in the model; a tied matrix appears once."""
        return [(name, one) for name, one in self.model.named_parameters() if one.requires_grad]

    def weights_hash(self) -> str:
        """Return the hash of the weights (``recording.weights_hash``); empty on a GPU, whose sums differ from run to
        run and whose weights would have to be copied, and on several ranks, whose sums have another order."""
        if self._ranks.is_sharded or self.config.device != "cpu":
            return ""
        return weights_hash(self.named_parameters())

    def compute_logprobs(self, micro_batch: MicroBatch, weights: Weights | None = None) -> Tensor:
        """Return the log-probabilities of the trained tokens, in nats, without gradient. Shape (m,).

        Args:
            weights: parameters by name to use instead of the present ones.
        """
        return score_with(self._scorer, micro_batch, weights)

    def _reference_logprobs(self, micro_batch: MicroBatch) -> Tensor:
        """Return the log-probabilities of the trained tokens under the reference policy, which is the model without
        its adapter if no other is loaded. Shape (m,)."""
        if self._reference is None and self._adapter is not None:
            with self._adapter.turned_off():
                return score_with(self._scorer, micro_batch)
        if self._reference is None:
            raise TurnwiseError("the loss needs a reference policy: call `load_reference` before the first update")
        return score_with(self._reference, micro_batch)

    def update(
        self,
        samples: Sequence[TrainSample],
        lr_progress: float,
        update: int,
        stream: Random,
        trace: LogprobTrace | None = None,
    ) -> dict[str, float]:
        """Train on a batch and return its metrics by name (``LearnerBackend.update``).

        Raises:
            NonFiniteLoss: the loss or gradient of an optimizer step is NaN or infinite. That step is not applied; the
                steps before it are.
        """
        self._supervised = None
        for scorer in filter(None, (self._scorer, self._reference)):
            scorer.forget_images()
        rate = self._set_learning_rate(lr_progress, update)
        config = self.config
        counts = [len(trained_tokens(sample)) for sample in samples]
        positions = [index for index, count in enumerate(counts) if count]
        trained = [samples[index] for index in positions]
        sizes = [counts[index] for index in positions]
        episodes = [one.episode for one in trained]
        parts = [
            part
            for _ in range(config.num_epochs)
            for part in split_minibatches(sizes, episodes, config.num_minibatches, stream)
        ]
        start: list[Tensor] | None = None
        self.passed = [0, config.num_epochs * sum(sizes)]
        if len(parts) > 1 and self.proximal.needs_start:
            start = self._logprobs_by_sample(trained, sizes)
        self.proximal.start_update(dict(self.named_parameters()))
        metrics = MetricReducer()
        steps: list[dict[str, float]] = []
        for number, part in enumerate(parts, 1):
            chosen = [trained[index] for index in part]
            start_logprobs = None if start is None else [start[index] for index in part]
            name = f"optimizer step {number} of {len(parts)}"
            is_traced = number <= len(parts) // config.num_epochs  # the first pass
            step_trace = (trace, [positions[index] for index in part]) if trace is not None and is_traced else None
            steps.append(self._optimizer_step(chosen, start_logprobs, name, metrics, step_trace))
        self.passed = [0, 0]
        means = {
            key: sum(step[key] for step in steps) / len(steps) if steps else empty
            for key, empty in STEP_METRICS.items()
        }
        of_loss = {name if name in SHARED_METRICS else f"loss/{name}": one for name, one in metrics.reduced().items()}
        used = {index for part, step in zip(parts, steps, strict=True) if step["grad_norm"] for index in part}
        return {**of_loss, **means, "learning_rate": rate, "tokens": float(sum(sizes[index] for index in used))}

    def _set_learning_rate(self, lr_progress: float, update: int) -> float:
        """Set and return the learning rate."""
        rate = learning_rate(self.config, lr_progress, update)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _pack(self, samples: Sequence[TrainSample]) -> Minibatch:
        config, ranks = self.config, self._ranks
        return pack_minibatch(
            samples, config.max_tokens_per_micro_batch, config.device, rank=ranks.rank, ranks=ranks.size
        )

    def _logprobs_by_sample(self, samples: Sequence[TrainSample], sizes: Sequence[int]) -> list[Tensor]:
        """Return the present log-probabilities of the trained tokens of each sample.

        Args:
            sizes: trained tokens per sample.
        """
        minibatch = self._pack(samples)
        starts = np.cumsum([0, *sizes])
        flat = torch.zeros(int(starts[-1]), device=self.config.device)
        for one, part in zip(minibatch.micro_batches, minibatch.parts, strict=True):
            positions = np.concatenate([np.arange(starts[index], starts[index + 1]) for index in part])
            flat[torch.as_tensor(positions, device=flat.device)] = self.compute_logprobs(one)
        self._idle(minibatch)
        total = self._ranks.sum(flat, "the sum of the log-probabilities at the start of the update")
        return list(torch.split(total, list(sizes)))

    def _idle(self, minibatch: Minibatch) -> None:
        """Take part in the forward pass of the other ranks' last micro-batch."""
        if minibatch.idle is not None:
            self.compute_logprobs(minibatch.idle)

    def _optimizer_step(
        self,
        samples: Sequence[TrainSample],
        start_logprobs: Sequence[Tensor] | None,
        name: str,
        metrics: MetricReducer,
        trace: tuple[LogprobTrace, Sequence[int]] | None = None,
    ) -> dict[str, float]:
        """Accumulate the gradient over the micro-batches, apply one optimizer step, and return its ``STEP_METRICS``.

        Args:
            samples: the minibatch; every sample has a trained token.
            start_logprobs: per sample, the log-probabilities at the start of the update; None if they are the current
                ones.
            name: names the step in an error.
            metrics: the loss's metrics are added here.
            trace: receives the log-probabilities of the samples, which have these indices in the batch.

        Raises:
            NonFiniteLoss: the loss or the gradient is NaN or infinite; the step is not applied.
        """
        minibatch = self._pack(samples)
        micro_batches = minibatch.micro_batches
        starts: Sequence[Tensor | None] = [None] * len(micro_batches)
        if start_logprobs is not None:
            starts = [torch.cat([start_logprobs[index] for index in part]) for part in minibatch.parts]
        own_loss = 0.0
        own_metrics = MetricReducer()
        before: list[Tensor] = []
        proximal: list[Tensor] = []
        entropy: list[Tensor] = []
        self.loss.prepare(samples)
        self.optimizer.zero_grad(set_to_none=True)
        for one, start in zip(micro_batches, starts, strict=True):
            batch = self._token_batch(one, minibatch, start)
            before.append(batch.logprobs.detach())
            proximal.append(batch.proximal.detach())
            if Need.ENTROPY in batch.needed or Need.ENTROPY_GRADIENT in batch.needed:
                entropy.append(batch.entropy.detach())
            output = self.loss(batch)
            output.loss.backward()  # type: ignore[no-untyped-call]
            own_loss += float(output.loss.detach())
            own_metrics.add(output.metrics)
            self.passed[0] += len(one.targets)
            if self.config.device == "cpu":
                del batch, output
                return_freed_memory()
        if minibatch.idle is not None:
            self._idle_backward(minibatch.idle)
        total = 0.0
        step_metrics = MetricReducer()
        for loss, state in self._ranks.gather([own_loss, own_metrics.state()], "the sum of the loss"):
            total += loss
            for reducer in (metrics, step_metrics):
                reducer.merge(state)
        clipped = torch.nn.utils.clip_grad_norm_([one for _, one in self.named_parameters()], self.config.max_grad_norm)
        norm = float(self._ranks.whole(clipped))
        if not (math.isfinite(norm) and math.isfinite(total)):
            self.optimizer.zero_grad(set_to_none=True)
            raise NonFiniteLoss(
                f"loss {total} with gradient norm {norm} in {name} of the batch: the step is not applied, and "
                "the run resumes from its last checkpoint; lower `learner.learning_rate` and run the same command again"
            )
        lr_scale = self.loss.lr_scale(step_metrics.reduced())
        if not (math.isfinite(lr_scale) and lr_scale >= 0):
            self.optimizer.zero_grad(set_to_none=True)
            raise NonFiniteLoss(
                f"`lr_scale` of the loss returned {lr_scale} in {name} of the batch: it must be a finite number of at "
                "least 0; the step is not applied, and the run resumes from its last checkpoint"
            )
        if trace is not None:
            trace[0].add(trace[1], minibatch, before, proximal, entropy)
        max_kl = self.config.max_kl
        parameters = [self._ranks.own(one) for _, one in self.named_parameters()]
        weights = [parameter.clone() for parameter in parameters] if max_kl else []
        offloaded = moments_on(self.optimizer, self.config.device) if self.config.optimizer_offload else nullcontext()
        with offloaded, scaled_learning_rate(self.optimizer, lr_scale):
            self.optimizer.step()
        step_scale = 1.0
        if max_kl:
            step_scale = backtrack(parameters, weights, lambda: self._divergence(minibatch, before), max_kl)
        self.proximal.after_step(dict(self.named_parameters()))
        return {"loss": total, "grad_norm": norm, "step_scale": step_scale, "lr_scale": lr_scale}

    def _token_batch(self, one: MicroBatch, minibatch: Minibatch, start: Tensor | None) -> TokenBatch:
        """Return the tokens of a micro-batch with the log-probabilities and entropies that the loss reads."""
        needs = self.loss.needs
        entropy = next((one for one in (Need.ENTROPY_GRADIENT, Need.ENTROPY) if one in needs), None)
        # First, because it may be a pass of the same model, and FSDP expects the backward pass after the forward pass.
        needed = {Need.REFERENCE: self._reference_logprobs(one)} if Need.REFERENCE in needs else {}
        logprobs, entropies = self._scorer(one, entropy)
        if entropy is not None and entropies is not None:
            needed[entropy] = entropies
        current = logprobs.detach()
        behavior = torch.where(one.sampled, one.behavior_logprobs, current)
        tokens = ProximalTokens(
            ids=one.targets,
            versions=one.versions,
            staleness=one.staleness,
            behavior=behavior,
            current=current,
            start=current if start is None and self.proximal.needs_start else start,
        )
        return TokenBatch(
            logprobs=logprobs,
            proximal=self.proximal.logprobs(tokens, lambda weights: self.compute_logprobs(one, weights)),
            behavior=behavior,
            advantages=one.advantages,
            weights=one.weights,
            sequence=one.sequences,
            turn=one.turns,
            group=one.groups,
            source=one.sources,
            staleness=one.staleness,
            lengths=minibatch.lengths,
            episode_lengths=minibatch.episode_lengths,
            totals=minibatch.totals,
            needed=needed,
        )

    def _divergence(self, minibatch: Minibatch, before: Sequence[Tensor]) -> float:
        """Return the KL divergence from earlier log-probabilities, by Schulman's k3 estimator, in nats per token.

        Args:
            before: per micro-batch of this rank, the earlier log-probabilities of its trained tokens.
        """
        total = torch.zeros((), device=self.config.device)
        for one, value in zip(minibatch.micro_batches, before, strict=True):
            total += k3(self.compute_logprobs(one) - value).sum()
        self._idle(minibatch)
        return float(self._ranks.sum(total, "the sum of the divergence")) / int(minibatch.lengths.sum())

    def _idle_backward(self, idle: MicroBatch) -> None:
        """Take part in the passes of the other ranks' last micro-batch, in their order, with a gradient of 0."""
        if Need.REFERENCE in self.loss.needs:
            self._reference_logprobs(idle)
        logprobs = self._scorer(idle).logprobs
        (logprobs.sum() * 0.0).backward()
