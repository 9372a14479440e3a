"""Split samples: an update into minibatches, one per optimizer step, and a minibatch into micro-batches."""

from collections.abc import Sequence
from heapq import heapify, heapreplace
from itertools import accumulate, pairwise
from random import Random


def split_minibatches(sizes: Sequence[int], count: int, stream: Random) -> list[list[int]]:
    """Return the indices of all samples in at most ``count`` minibatches; none is empty.

    * One minibatch keeps the order of the samples and draws nothing.
    * Several are cut from a shuffled order. Their numbers of trained tokens differ from the mean by at most the size of
      one sample, unless a minibatch would be empty otherwise.

    Args:
        sizes: trained tokens per sample.
        stream: the random stream of the shuffles.
    """
    order = list(range(len(sizes)))
    count = min(count, len(order))
    if count <= 1:
        return [order] if order else []
    stream.shuffle(order)
    ends = [0, *accumulate(sizes[index] for index in order)]
    cuts = [0]
    for number in range(1, count):
        target = ends[-1] * number / count
        candidates = range(cuts[-1] + 1, len(order) - (count - number) + 1)
        cuts.append(min(candidates, key=lambda cut: abs(ends[cut] - target)))
    return [order[start:end] for start, end in pairwise([*cuts, len(order)])]


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
