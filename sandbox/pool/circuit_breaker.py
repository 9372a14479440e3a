"""A circuit breaker: after some failures in a row nothing more is tried, but for one probe now and then.

Without it an engine that is down would be asked for every episode's sandbox, and a run would spend its tasks on an
outage. Pure state; who holds it decides what a try is.
"""

from time import monotonic


class CircuitBreaker:
    """Closed while things work; open after ``threshold`` failures in a row, until a probe succeeds."""

    def __init__(self, threshold: int = 5, probe_seconds: float = 5.0) -> None:
        self.threshold = threshold
        self.probe_seconds = probe_seconds
        self.failures = 0
        """In a row."""
        self.reason = ""
        """The last failure."""
        self._tried = 0.0

    @property
    def is_open(self) -> bool:
        """Whether only probes are let through."""
        return self.failures >= self.threshold

    def allows(self, now: float | None = None) -> bool:
        """Whether a try may be made now; one that is made as a probe puts the next off."""
        now = monotonic() if now is None else now
        if self.is_open and now - self._tried < self.probe_seconds:
            return False
        self._tried = now
        return True

    def succeeded(self) -> None:
        """A try worked: closed again."""
        self.failures, self.reason = 0, ""

    def failed(self, why: str) -> None:
        """A try did not work."""
        self.failures += 1
        self.reason = why
        self._tried = monotonic()
