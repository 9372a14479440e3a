"""The circuit breaker of a run: an outage pauses new groups, and a broken environment ends the run.

No failed group reaches the learner, so an outage does not change the policy.
"""

from time import monotonic

from ...base.circuit_breaker import CircuitBreaker

FAILURES_TO_OPEN = 8
"""Consecutive failed groups after which only probes are opened."""
FAILURES_TO_GIVE_UP = 24
"""Consecutive failed groups that end a run in which no group ever succeeded."""
OUTAGE_MAX_S = 1800.0
"""Seconds without a successful group that end a run in which one succeeded before."""
PROBE_INTERVAL_S = 2.0
PROBE_INTERVAL_MAX_S = 30.0


class RolloutCircuitBreaker(CircuitBreaker):
    """Decide how many groups may open, and when failures end the run.

    * No group succeeded so far: the environment is broken. The breaker stays closed, and the run ends after
      ``FAILURES_TO_GIVE_UP`` consecutive failures.
    * A group succeeded before: this is an outage. The breaker opens after ``FAILURES_TO_OPEN`` consecutive failures;
      then one probe at a time is opened, at exponentially growing intervals, until a probe succeeds or
      ``OUTAGE_MAX_S`` seconds have passed.
    """

    def __init__(self, *, has_succeeded: bool = False) -> None:
        super().__init__(FAILURES_TO_OPEN, PROBE_INTERVAL_S, PROBE_INTERVAL_MAX_S)
        self.has_succeeded = has_succeeded
        """Whether any group of the run ever succeeded."""

    @property
    def is_open(self) -> bool:
        """Whether only probes are opened."""
        return self.has_succeeded and super().is_open

    def record_success(self) -> None:
        """Close the breaker: enough members of a group survived."""
        super().record_success()
        self.has_succeeded = True

    def allowed(self, wanted: int, running: int, now: float | None = None) -> int:
        """Return how many of ``wanted`` groups to open while ``running`` are: all, or at most one probe."""
        if not self.is_open:
            return wanted
        return 1 if wanted and not running and self.allows(now) else 0

    def give_up_reason(self, now: float | None = None) -> str:
        """Return why the run must end; empty while it may go on."""
        now = monotonic() if now is None else now
        if not self.has_succeeded and self.failures >= FAILURES_TO_GIVE_UP:
            return f"{self.failures} consecutive groups failed; last error: {self.last_error}"
        if self.is_open and now - self.failing_since > OUTAGE_MAX_S:
            return f"no group succeeded for {now - self.failing_since:.0f} s; last error: {self.last_error}"
        return ""
