"""Log-probabilities that the learner computed for the trained tokens of an update; their distance to the engine's."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....records import Source
from ...algorithms.groups import TrainSample
from ...algorithms.losses.base import SOURCES
from ..packing import Minibatch, trained_tokens


class LogprobTrace:
    """Log-probabilities per sample, from the first pass over the batch.

    A later pass is left out: it may give a sample to another rank of the learner.
    """

    def __init__(self) -> None:
        self.current: dict[int, NDArray[np.float32]] = {}
        """Index of the sample in the batch -> those of the policy being updated. (trained tokens,)"""
        self.proximal: dict[int, NDArray[np.float32]] = {}
        """Index of the sample in the batch -> those of the proximal policy. (trained tokens,)"""
        self.first_step: set[int] = set()
        """Indices of the samples in the first optimizer step: ``current`` holds their log-probabilities under the
        weights that the update begins with."""

    def add(
        self, samples: Sequence[int], minibatch: Minibatch, current: Sequence[Tensor], proximal: Sequence[Tensor]
    ) -> None:
        """Add one optimizer step.

        Args:
            samples: index in the batch of each sample of the minibatch.
            current, proximal: per micro-batch, the values of its trained tokens.
        """
        if not self.first_step:
            self.first_step.update(samples)
        order = [index for part in minibatch.parts for index in part]
        if not order:  # the other ranks compute all samples of the step
            return
        lengths = minibatch.lengths[order].tolist()
        for found, values in ((self.current, current), (self.proximal, proximal)):
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
