"""When the world fails, not the policy: how to wait for it to come back.

An environment that never worked is broken, and a run on it ends after ``GIVE_UP_AFTER`` groups failed in a row. One
that did work has an outage: after ``PAUSE_AFTER`` failures in a row new groups wait, but for one at a time to try, more
and more seldom, until one succeeds or ``OUTAGE_SECONDS`` have passed. No failed group ever reaches the learner, so
nothing is learned from an outage.
"""

from dataclasses import dataclass
from time import monotonic

GIVE_UP_AFTER = 24
PAUSE_AFTER = 8
OUTAGE_SECONDS = 1800.0
FIRST_PROBE = 2.0
"""Seconds from a failure to the next try; doubles with each, up to ``SELDOM``."""
SELDOM = 30.0


@dataclass(slots=True)
class Outage:
    """What the last groups of a run say of the world."""

    failed: int = 0
    """Groups in a row."""
    reason: str = ""
    """Why the last one failed."""
    worked: bool = False
    since: float = 0.0
    """When the first of the row failed."""
    probe_at: float = 0.0

    def succeeded(self) -> None:
        """A group had enough survivors."""
        self.failed, self.worked = 0, True

    def happened(self, reason: str, now: float | None = None) -> None:
        """A group failed."""
        now = monotonic() if now is None else now
        self.since = self.since if self.failed else now
        self.failed += 1
        self.reason = reason
        self.probe_at = now + min(FIRST_PROBE * 2 ** max(0, self.failed - PAUSE_AFTER), SELDOM)

    @property
    def lasts(self) -> bool:
        """Whether new groups wait."""
        return self.worked and self.failed >= PAUSE_AFTER

    def room(self, wanted: int, under_way: int, now: float | None = None) -> int:
        """How many of ``wanted`` groups to open while ``under_way`` are open: all, or in an outage one to try."""
        if not self.lasts:
            return wanted
        now = monotonic() if now is None else now
        return min(wanted, 1) if under_way == 0 and now >= self.probe_at else 0

    def hopeless(self, now: float | None = None) -> str:
        """Why the run should end; empty while there is hope."""
        now = monotonic() if now is None else now
        if self.failed and not self.worked and self.failed >= GIVE_UP_AFTER:
            return f"{self.failed} groups in a row failed, the last because {self.reason}"
        if self.lasts and now - self.since > OUTAGE_SECONDS:
            return f"no group succeeded for {now - self.since:.0f} s; the last failed because {self.reason}"
        return ""
