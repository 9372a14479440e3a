"""Split the samples of an update into the minibatches of its optimizer steps: shuffled, balanced by tokens."""

from collections.abc import Sequence
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
