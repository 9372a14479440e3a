"""The fraction of the time in which the parts of a run compute."""


class Utilization:
    """Busy fractions of learner and engines between two updates."""

    def __init__(self, engines: int, busy_s: float) -> None:
        """``busy_s``: seconds that the engines have computed so far, summed over the engines."""
        self._engines = engines
        self._busy_s = busy_s

    def since_last(self, busy_s: float, learner_s: float, seconds: float) -> dict[str, float]:
        """Return the fractions of the last ``seconds``, by metric; ``docs/guide/metrics.md`` explains each.

        Args:
            busy_s: seconds that the engines have computed so far, summed; a restarted engine begins again at 0.
            learner_s: seconds in which the learner assembled and trained.
        """
        computed, self._busy_s = max(0.0, busy_s - self._busy_s), busy_s
        return {
            "learner_busy_fraction": min(1.0, learner_s / seconds),
            "engine_busy_fraction": min(1.0, computed / (seconds * self._engines)),
        }
