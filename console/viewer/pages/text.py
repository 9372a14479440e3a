"""Texts of episodes, cut to the length that a page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from ....trainer.run.retraining.stored_batch import TrainedStep


@dataclass(frozen=True, slots=True)
class Cut:
    """The beginning of a text."""

    text: str
    chars: int
    """Length of the whole text."""
    quoted: Sequence[str] = ()
    """The printed text in three parts: before, of and after a quotation; empty without one."""

    @classmethod
    def of(cls, text: str, limit: int | None) -> "Cut":
        """Return at most ``limit`` characters of a text; None for all."""
        return cls(text if limit is None else text[:limit], len(text))


def advantages(steps: Sequence[TrainedStep]) -> dict[int, float]:
    """Return the mean advantage of the trained tokens of each turn that has some, by index."""
    trained = {step.index: [one.advantage for one in step.tokens if one.weight] for step in steps}
    return {index: fmean(values) for index, values in trained.items() if values}
