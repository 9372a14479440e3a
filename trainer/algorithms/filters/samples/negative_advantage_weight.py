"""Learn less from failure than from success.

Source: ours.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from pydantic import Field

from ...groups import TrainSample
from .base import SampleFilter


class NegativeAdvantageWeight(SampleFilter):
    """Multiply the weight of tokens with a negative advantage by ``weight``.

    All terms of the loss at these tokens get the weight, an entropy bonus and a KL penalty too.
    """

    weight: float = Field(0.5, ge=0)
    """Factor of the weight of tokens with a negative advantage."""

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        """Return the batch with the new weights."""
        return [
            replace(one, weights=np.where(one.advantages < 0, one.weights * np.float32(self.weight), one.weights))
            for one in batch
        ]
