"""The log-probabilities that the learner computed for the trained tokens of an update, by sample."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..packing import Minibatch


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
