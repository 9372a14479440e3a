"""The base class of sample filters."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from ..component import Component
from ..groups import TrainSample


class SampleFilter(Component, ABC):
    """Masks or weights the tokens of an update."""

    slot: ClassVar[str] = "sample_filters"

    @abstractmethod
    def __call__(self, batch: Sequence[TrainSample], rng: Random) -> list[TrainSample]:
        """Return the batch with new ``weights``; ``rng`` is this filter's random stream."""
