"""From an update to its record in the store: groups, details per trajectory, recipe, and the hash of the weights."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....records import Source
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import SOURCES
from ..batch import Batch
from ..packing import Minibatch, trained_tokens
from .recipe import Recipe, SampleDetail, encode_details, half


class LogprobTrace:
    """Log-probabilities and entropies per sample, from the first pass over the batch.

    A later pass is left out: it may give a sample to another rank of the learner.
    """

    def __init__(self) -> None:
        self.current: dict[int, NDArray[np.float32]] = {}
        """Index of the sample in the batch -> those of the policy being updated. (trained tokens,)"""
        self.proximal: dict[int, NDArray[np.float32]] = {}
        """Index of the sample in the batch -> those of the proximal policy. (trained tokens,)"""
        self.entropy: dict[int, NDArray[np.float32]] = {}
        """Index of the sample in the batch -> its entropies, in nats, if the loss computes them. (trained tokens,)"""
        self.first_step: set[int] = set()
        """Indices of the samples in the first optimizer step: ``current`` holds their log-probabilities under the
        weights that the update begins with."""

    def add(
        self,
        samples: Sequence[int],
        minibatch: Minibatch,
        current: Sequence[Tensor],
        proximal: Sequence[Tensor],
        entropy: Sequence[Tensor] = (),
    ) -> None:
        """Add one optimizer step.

        Args:
            samples: index in the batch of each sample of the minibatch.
            current, proximal, entropy: per micro-batch, the values of its trained tokens; no entropies if the loss
                computes none.
        """
        if not self.first_step:
            self.first_step.update(samples)
        order = [index for part in minibatch.parts for index in part]
        if not order:  # the other ranks compute all samples of the step
            return
        lengths = minibatch.lengths[order].tolist()
        for found, values in ((self.current, current), (self.proximal, proximal), (self.entropy, entropy)):
            if not values:
                continue
            flat = torch.cat(list(values)).detach().cpu()
            for index, part in zip(order, torch.split(flat, lengths), strict=True):
                found[samples[index]] = part.numpy().astype(np.float32)


POLICY = SOURCES.index(Source.POLICY)


def engine_mismatch(samples: Sequence[TrainSample], trace: LogprobTrace) -> dict[str, float]:
    """Return the mean and the maximum of |engine - learner|, in nats, over the trained tokens with staleness 0 of the
    first optimizer step.

    Engine and learner computed these tokens with the weights that the update begins with, so that they differ by their
    arithmetic alone. Without such a token the result is empty.

    Args:
        samples: the batch of the update.
        trace: what the learner computed.
    """
    found = [np.empty(0, np.float32)]
    for index in sorted(trace.first_step & trace.current.keys()):
        one, current = samples[index], trace.current[index]
        trained = trained_tokens(one)
        same = (one.staleness[trained] == 0) & (one.sample.sources[trained] == POLICY) & (one.sample.mask[trained] != 0)
        found.append(np.abs(one.sample.logprobs[trained][same] - current[same]))
    differences = np.concatenate(found)
    if not len(differences):
        return {}
    return {"engine_mismatch_mean": float(differences.mean()), "engine_mismatch_max": float(differences.max())}


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """The record of one update, for ``RunStore.acknowledge``."""

    groups: Sequence[str]
    """The groups that the update consumes, in the order of the batch."""
    reused: Sequence[str]
    """The other groups of the batch, in its order. The index of a group in a detail counts over both lists."""
    details: Mapping[str, bytes]
    """Trajectory -> its samples in the batch (``encode_details``)."""
    recipe: Recipe
    weights_hash: str
    """The hash of the weights after the update; empty if the learner does not compute it."""


def record_update(
    batch: Batch,
    fresh: Collection[str],
    trace: LogprobTrace,
    recipe: Recipe,
    weights_hash: str,
) -> UpdateRecord:
    """Return the record of an update.

    Args:
        fresh: ids of the leased groups.
        trace: filled by the learner.
        recipe: without the facts of the batch.
        weights_hash: the hash of the weights after the update.
    """
    groups = [name for name in batch.groups if name in fresh]
    reused = [name for name in batch.groups if name not in fresh]
    index = {name: number for number, name in enumerate([*groups, *reused])}
    used = np.unique(np.concatenate([np.empty(0, np.int8), *(sample.sample.sources for sample in batch.samples)]))
    used = used[used >= 0]
    found: dict[str, list[SampleDetail]] = defaultdict(list)
    for position, sample in enumerate(batch.samples):
        if sample.weights.any():
            found[sample.sample.trajectory].append(_detail(sample, position, index[sample.group], used, trace))
    found_success = {sample.group: sample.task_success for sample in batch.samples}
    task_success = [None if isnan(value := found_success.get(name, float("nan"))) else value for name in index]
    sources = [SOURCES[source].value for source in used]
    details = {name: encode_details(samples) for name, samples in found.items()}
    whole = recipe.model_copy(update={"sources": sources, "task_success": task_success})
    return UpdateRecord(groups, reused, details, whole, weights_hash)


def _detail(one: TrainSample, position: int, group: int, used: NDArray[np.int8], trace: LogprobTrace) -> SampleDetail:
    """Return the detail of a sample; ``used`` holds the sources of the batch, in ascending order."""
    acted = one.sample.sources >= 0
    trained = trained_tokens(one)
    logprobs, proximal = np.zeros(len(acted), np.float32), np.zeros(len(acted), np.float32)
    entropy = np.full(len(acted), np.nan, np.float32)
    if position in trace.current:
        sampled = one.sample.mask[trained] != 0
        logprobs[trained] = trace.current[position] - np.where(sampled, one.sample.logprobs[trained], np.float32(0))
        proximal[trained] = trace.proximal[position] - trace.current[position]
    if position in trace.entropy:
        entropy[trained] = trace.entropy[position]
    return SampleDetail(
        position,
        group,
        one.path,
        one.advantages[acted],
        one.weights[acted],
        np.searchsorted(used, one.sample.sources[acted]).astype(np.uint8),
        half(logprobs[acted]),
        half(proximal[acted]),
        half(entropy[acted]),
    )


def weights_hash(parameters: Iterable[tuple[str, Tensor]]) -> str:
    """Return the SHA-256 of the parameters with their names, types and shapes, in the order of the names, in hex.

    A parameter counts with the SHA-256 of its values, row by row.
    """
    whole = hashlib.sha256()
    for name, value in sorted(parameters, key=lambda parameter: parameter[0]):
        values = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        whole.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        whole.update(hashlib.sha256(values.data).digest())
    return whole.hexdigest()
