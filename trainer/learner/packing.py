"""Split an update into minibatches, and pack their samples, without padding, into micro-batches of bounded length.

Invariant: a split depends on the numbers of tokens and the random stream only, so every rank computes the same one.

In a causal model the logits at position ``p`` predict token ``p + 1``. A micro-batch therefore holds the flat position
*before* each trained token. The first token of a sample has no position before it and is never trained on.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import TurnwiseError
from ...records import SampleImage
from ..algorithms.groups import TrainSample
from ..algorithms.losses.base import Totals


def split_minibatches(
    sizes: Sequence[int], episodes: Sequence[Hashable], count: int, stream: Random
) -> list[list[int]]:
    """Return the indices of all samples in at most ``count`` minibatches; none is empty, and none splits an episode.

    * One minibatch keeps the order of the samples and draws nothing.
    * Several are cut from a shuffled order. Their numbers of trained tokens differ from the mean by at most the size of
      one episode, unless a minibatch would be empty otherwise.

    Args:
        sizes: trained tokens per sample.
        episodes: the episode of each sample.
        stream: the random stream of the shuffles.
    """
    members: dict[Hashable, list[int]] = {}
    for index, episode in enumerate(episodes):
        members.setdefault(episode, []).append(index)
    order = list(members)
    count = min(count, len(order))
    if count <= 1:
        return [list(range(len(sizes)))] if order else []
    stream.shuffle(order)
    ends = [0, *accumulate(sum(sizes[index] for index in members[episode]) for episode in order)]
    cuts = [0]
    for number in range(1, count):
        target = ends[-1] * number / count
        candidates = range(cuts[-1] + 1, len(order) - (count - number) + 1)
        cuts.append(min(candidates, key=lambda cut: abs(ends[cut] - target)))
    parts = (order[start:end] for start, end in pairwise([*cuts, len(order)]))
    return [[index for episode in part for index in members[episode]] for part in parts]


def split_micro_batches(sizes: Sequence[int], max_tokens: int, ranks: int = 1) -> list[list[int]]:
    """Return the indices of all samples in micro-batches, ascending in each.

    * A micro-batch has at most ``max_tokens`` tokens; a longer sample is alone in one.
    * The number of micro-batches is a multiple of ``ranks``, as small as the packing finds, because all ranks compute
      together: rank ``r`` takes the micro-batches ``r``, ``r + ranks`` and so on. Empty ones come last.
    * Samples are placed longest first, each into the micro-batch with the fewest tokens (Graham 1969, "Bounds on
      Multiprocessing Timing Anomalies").

    Args:
        sizes: tokens per sample.
    """
    if not sizes:
        return []
    most = _round_up(len(sizes), ranks)
    count = min(most, _round_up(-(-sum(sizes) // max_tokens), ranks))
    parts = _place(sizes, count)
    while count < most and any(len(part) > 1 and sum(sizes[index] for index in part) > max_tokens for part in parts):
        count += ranks
        parts = _place(sizes, count)
    return sorted(parts, key=lambda part: part[0] if part else len(sizes))


def _round_up(count: int, factor: int) -> int:
    return -(-count // factor) * factor


def _place(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Return ``count`` lists of indices whose sums of sizes are about equal; some are empty if samples are fewer."""
    parts: list[list[int]] = [[] for _ in range(count)]
    fills = [(0, part) for part in range(count)]
    heapify(fills)
    for index in sorted(range(len(sizes)), key=lambda one: (-sizes[one], one)):
        used, part = fills[0]
        parts[part].append(index)
        heapreplace(fills, (used + sizes[index], part))
    return [sorted(part) for part in parts]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The tensors of one forward and backward pass over ``n`` tokens, ``m`` of them trained."""

    token_ids: Tensor
    """int64 (1, n)"""
    position_ids: Tensor
    """int64 (1, n), counted from 0 in each sequence"""
    lengths: Sequence[int]
    """Tokens per sequence; the sum is ``n``."""
    logit_positions: Tensor
    """int64 (m,): flat positions whose logits predict the trained tokens"""
    targets: Tensor
    """int64 (m,): ids of the trained tokens"""
    behavior_logprobs: Tensor
    """float32 (m,); NaN where ``sampled`` is False"""
    sampled: Tensor
    """bool (m,): whether the policy sampled the token"""
    advantages: Tensor
    """float32 (m,)"""
    weights: Tensor
    """float32 (m,)"""
    versions: Tensor
    """int64 (m,): ids of the versions that sampled the trained tokens"""
    staleness: Tensor
    """int64 (m,); 0 where ``sampled`` is False"""
    turns: Tensor
    """int64 (m,)"""
    sources: Tensor
    """int64 (m,): indices into ``SOURCES``"""
    sequences: Tensor
    """int64 (m,): indices of the samples in the minibatch"""
    groups: Tensor
    """int64 (m,): indices of the groups in the minibatch"""
    images: Sequence[SampleImage] = field(default=(), kw_only=True)
    """In the order of their offsets, which are flat positions."""


@dataclass(frozen=True, slots=True)
class Minibatch:
    """The micro-batches of one rank in one optimizer step; lengths and totals are those of all ranks."""

    micro_batches: Sequence[MicroBatch]
    parts: Sequence[Sequence[int]]
    """Per micro-batch, the indices of its samples in the minibatch."""
    idle: MicroBatch | None
    """A micro-batch that counts for nothing: this rank computes it while other ranks compute their last one."""
    lengths: Tensor
    """int64 (samples,): trained tokens per sample"""
    episode_lengths: Tensor
    """int64 (samples,): trained tokens of the sample's episode"""
    totals: Totals


def trained_tokens(sample: TrainSample) -> NDArray[np.intp]:
    """Return the positions of the tokens with a weight, except the first token of the sample."""
    return np.flatnonzero(sample.weights[1:]) + 1


def group_indices(samples: Sequence[TrainSample]) -> dict[str, int]:
    """Return the index of each group by its id, counted from 0 in the order of the samples."""
    return {group: index for index, group in enumerate(dict.fromkeys(sample.group for sample in samples))}


def pack_minibatch(
    samples: Sequence[TrainSample], max_tokens: int, device: str = "cpu", *, rank: int = 0, ranks: int = 1
) -> Minibatch:
    """Return a rank's share of the samples in micro-batches of at most ``max_tokens`` tokens; a longer sample is alone
    in one. Every rank computes equally many, idle ones included.
    """
    groups = group_indices(samples)
    split = split_micro_batches([len(sample.sample.tokens) for sample in samples], max_tokens, ranks)
    own = split[rank::ranks]
    parts = [part for part in own if part]
    idle = None
    if len(parts) < len(own):
        idle = pack([min(samples, key=lambda sample: len(sample.sample.tokens))], device)
    micro_batches = [pack([samples[index] for index in part], device, indices=part, groups=groups) for part in parts]
    counts = [len(trained_tokens(sample)) for sample in samples]
    of_episode = Counter[Hashable]()
    for sample, count in zip(samples, counts, strict=True):
        of_episode[sample.episode] += count
    lengths = torch.as_tensor(counts, dtype=torch.int64, device=device)
    episode_lengths = torch.as_tensor([of_episode[sample.episode] for sample in samples], device=device)
    return Minibatch(micro_batches, parts, idle, lengths, episode_lengths, Totals.of(samples, counts))


def flat_images(images: Sequence[Sequence[SampleImage]], lengths: Sequence[int]) -> list[SampleImage]:
    """Return the images of packed sequences of these lengths; their offsets become flat positions.

    Raises:
        TurnwiseError: an image has tokens outside of its sequence, or those of the image before it.
    """
    found = list[SampleImage]()
    for shown, start, length in zip(images, accumulate(lengths, initial=0), lengths, strict=False):
        end = 0
        for one in shown:
            if one.offset < end or one.offset + one.length > length:
                raise TurnwiseError(f"image {one.blob[:12]} has tokens outside of its place in its sample")
            end = one.offset + one.length
            found.append(replace(one, offset=start + one.offset))
    return found


def pack(
    samples: Sequence[TrainSample],
    device: str = "cpu",
    *,
    indices: Sequence[int] | None = None,
    groups: Mapping[str, int] | None = None,
) -> MicroBatch:
    """Return the micro-batch of these samples, in order.

    Args:
        indices: index of each sample in the minibatch; by default, samples count from 0 in this micro-batch.
        groups: index of each group in the minibatch; by default, groups count from 0 in this micro-batch.
    """
    groups = group_indices(samples) if groups is None else groups
    lengths = [len(sample.sample.tokens) for sample in samples]
    starts = np.cumsum([0, *lengths[:-1]])
    trained = [trained_tokens(sample) for sample in samples]
    counts = [len(index) for index in trained]

    def column(values: Sequence[NDArray[Any]], dtype: torch.dtype) -> Tensor:
        picked = [value[index] for value, index in zip(values, trained, strict=True)]
        return torch.as_tensor(np.concatenate(picked), dtype=dtype, device=device)

    def repeated(values: Sequence[int]) -> Tensor:
        return torch.as_tensor(np.repeat(values, counts), dtype=torch.int64, device=device)

    before = np.concatenate([start + index - 1 for start, index in zip(starts, trained, strict=True)])
    tokens = [sample.sample.tokens for sample in samples]
    positions = np.concatenate([np.arange(length) for length in lengths])
    return MicroBatch(
        token_ids=torch.as_tensor(np.concatenate(tokens), dtype=torch.int64, device=device)[None],
        position_ids=torch.as_tensor(positions, device=device)[None],
        lengths=lengths,
        logit_positions=torch.as_tensor(before, dtype=torch.int64, device=device),
        targets=column(tokens, torch.int64),
        behavior_logprobs=column([sample.sample.logprobs for sample in samples], torch.float32),
        advantages=column([sample.advantages for sample in samples], torch.float32),
        sampled=column([sample.sample.mask for sample in samples], torch.bool),
        weights=column([sample.weights for sample in samples], torch.float32),
        versions=column([sample.sample.versions for sample in samples], torch.int64),
        staleness=column([sample.staleness for sample in samples], torch.int64).clamp(min=0),
        turns=column([sample.sample.turns for sample in samples], torch.int64),
        sources=column([sample.sample.sources for sample in samples], torch.int64),
        sequences=repeated(range(len(samples)) if indices is None else indices),
        groups=repeated([groups[sample.group] for sample in samples]),
        images=flat_images([sample.sample.images for sample in samples], lengths),
    )
