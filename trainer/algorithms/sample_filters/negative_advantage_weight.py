"""Learn less from failure than from success.

Source: ours. The weight lowers the share of these tokens in the sum of the loss; the denominator counts them as before,
so the share of the others does not rise.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from pydantic import Field

from ..groups import TrainSample
from .base import SampleFilter


class NegativeAdvantageWeight(SampleFilter):
    """Multiply the weight of tokens with a negative advantage by ``weight``.

    All terms of the loss at these tokens get the weight, an entropy bonus and a KL penalty too.
    """

    weight: float = Field(0.5, gt=0)
    """Factor of the weight of tokens with a negative advantage; above 0, since a token of weight 0 would leave the
    denominator."""

    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        """Return the batch with the new weights."""
        return [
            replace(one, weights=np.where(one.advantages < 0, one.weights * np.float32(self.weight), one.weights))
            for one in batch
        ]
