"""Masks and weights inside an update."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

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
            replace(
                one, weights=[w * self.weight if a < 0 else w for w, a in zip(one.weights, one.advantages, strict=True)]
            )
            for one in batch
        ]
