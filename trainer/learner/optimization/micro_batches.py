"""Split the samples of a minibatch into micro-batches: balanced by tokens, and equally many for every rank."""

from collections.abc import Sequence
from heapq import heapify, heapreplace


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
