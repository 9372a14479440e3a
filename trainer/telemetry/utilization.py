"""The fraction of the time in which the parts of a run compute."""

from collections.abc import Mapping
from typing import NamedTuple


class Busy(NamedTuple):
    """The work of one part of a run so far."""

    seconds: float
    """Seconds in which its processes were busy, summed over them; never falls."""
    processes: int


class Utilization:
    """Busy fractions of learner, engines and other parts between two updates."""

    def __init__(self, parts: Mapping[str, Busy]) -> None:
        """``parts``: the work so far, by part."""
        self._parts = parts

    def restart(self, parts: Mapping[str, Busy]) -> None:
        """Leave out the work since the last update, which was not for training."""
        self._parts = parts

    def since_last(self, parts: Mapping[str, Busy], learner_s: float, seconds: float) -> dict[str, float]:
        """Return the fractions of the last ``seconds``, by metric; ``docs/guide/metrics.md`` explains each.

        Args:
            parts: the work so far, by part.
            learner_s: seconds in which the learner assembled and trained.
        """
        before, self._parts = self._parts, parts
        fractions = {"learner_busy_fraction": learner_s / seconds}
        for part, (busy_s, processes) in parts.items():
            fractions[f"{part}_busy_fraction"] = (busy_s - before[part].seconds) / (seconds * max(1, processes))
        return {name: min(1.0, fraction) for name, fraction in fractions.items()}
