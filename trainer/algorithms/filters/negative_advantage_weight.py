"""Masks and weights inside an update."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from pydantic import Field

from ..protocols import TrainSample
from ..registry import Extension


class NegativeWeight(Extension):
    """Multiply the weight of tokens with a negative advantage: below 1, failure is unlearnt more gently than success
    is learnt.
    """

    weight: float = Field(0.5, ge=0)

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        """See ``protocols.SampleFilter``."""
        return [
            replace(one, weights=np.where(one.advantages < 0, one.weights * np.float32(self.weight), one.weights))
            for one in batch
        ]
