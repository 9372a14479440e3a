"""A circuit breaker: after several consecutive failures it allows only probes, until one of them succeeds.

It counts and measures time, and starts nothing: its owner decides what an attempt is. The sandbox pool counts the
starts of sandboxes, and the dispatcher of a run counts groups. All times are on the monotonic clock.
"""

from time import monotonic


class CircuitBreaker:
    """Closed while attempts succeed; open after ``threshold`` consecutive failures, until a probe succeeds.

    The interval between probes starts at ``probe_interval_s`` and doubles with every probe, up to
    ``probe_interval_max_s``; without a maximum it is constant. The failures of attempts that were in progress when the
    breaker opened leave it as it is.
    """

    def __init__(
        self, threshold: int = 5, probe_interval_s: float = 5.0, probe_interval_max_s: float | None = None
    ) -> None:
        self.threshold = threshold
        self.probe_interval_s = probe_interval_s
        self.probe_interval_max_s = probe_interval_s if probe_interval_max_s is None else probe_interval_max_s
        self.failures = 0
        """Consecutive failures."""
        self.last_error = ""
        """Reason of the last failure; empty after a success."""
        self.failing_since = 0.0
        """Time of the first of the consecutive failures."""
        self._probes = 0
        """Probes since the last success."""
        self._next_probe = 0.0

    @property
    def is_open(self) -> bool:
        """Whether only probes are allowed."""
        return self.failures >= self.threshold

    def allows(self, now: float | None = None) -> bool:
        """Return whether an attempt may start now. While open, a True counts as the probe and delays the next one."""
        if not self.is_open:
            return True
        now = monotonic() if now is None else now
        if now < self._next_probe:
            return False
        self._next_probe = now + self._interval()
        self._probes += 1
        return True

    def record_success(self) -> None:
        """Close the breaker: an attempt succeeded."""
        self.failures, self.last_error, self._probes = 0, "", 0

    def record_failure(self, error: str, now: float | None = None) -> None:
        """Count a failed attempt, and delay the next probe."""
        now = monotonic() if now is None else now
        self.failing_since = self.failing_since if self.failures else now
        self.failures += 1
        self.last_error = error
        self._next_probe = now + self._interval()

    def _interval(self) -> float:
        """Return the seconds until the next probe."""
        # The exponent is bounded: a float overflows at 2 ** 1024.
        return float(min(self.probe_interval_s * 2 ** min(self._probes, 60), self.probe_interval_max_s))
