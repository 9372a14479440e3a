"""Circuit breaker: after several failures in a row, only an occasional probe is allowed.

Without the breaker, an engine that is down would receive a start for every episode, and a run would spend its tasks on
the outage.
"""

from time import monotonic


class CircuitBreaker:
    """Closed while operations succeed; open after ``threshold`` failures in a row, until a probe succeeds."""

    def __init__(self, threshold: int = 5, probe_interval_s: float = 5.0) -> None:
        self.threshold = threshold
        self.probe_interval_s = probe_interval_s
        self.failures = 0
        """Failures in a row."""
        self.reason = ""
        """Text of the last failure; empty after a success."""
        self._last_attempt = 0.0

    @property
    def is_open(self) -> bool:
        """Return whether only probes are allowed."""
        return self.failures >= self.threshold

    def allows(self, now: float | None = None) -> bool:
        """Return whether an attempt may be made now. If the breaker is open, True starts a new probe interval."""
        now = monotonic() if now is None else now
        if self.is_open and now - self._last_attempt < self.probe_interval_s:
            return False
        self._last_attempt = now
        return True

    def succeeded(self) -> None:
        """Record a success, which closes the breaker."""
        self.failures, self.reason = 0, ""

    def failed(self, reason: str) -> None:
        """Record a failure."""
        self.failures += 1
        self.reason = reason
        self._last_attempt = monotonic()
