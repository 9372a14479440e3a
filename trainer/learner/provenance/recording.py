"""From an update to what the store keeps of it: the order of its groups, details per trajectory, and the recipe."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
from numpy.typing import NDArray

from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import SOURCES
from ..batch import Batch
from ..packing import trained_tokens
from .details import SampleDetail, encode_details, half
from .logprob_trace import LogprobTrace
from .recipe import Recipe


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
    used = np.unique(np.concatenate([np.empty(0, np.int8), *(one.sample.sources for one in batch.samples)]))
    used = used[used >= 0]
    found: dict[str, list[SampleDetail]] = defaultdict(list)
    for position, one in enumerate(batch.samples):
        if one.weights.any():
            found[one.sample.trajectory].append(_detail(one, position, index[one.group], used, trace))
    found_success = {one.group: one.task_success for one in batch.samples}
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
    if position in trace.current:
        sampled = one.sample.mask[trained] != 0
        logprobs[trained] = trace.current[position] - np.where(sampled, one.sample.logprobs[trained], np.float32(0))
        proximal[trained] = trace.proximal[position] - trace.current[position]
    return SampleDetail(
        position,
        group,
        one.path,
        one.advantages[acted],
        one.weights[acted],
        np.searchsorted(used, one.sample.sources[acted]).astype(np.uint8),
        half(logprobs[acted]),
        half(proximal[acted]),
    )
