"""Grade submitted files by cases and hidden tests, in a fresh sandbox."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """The number of passing checks that count, the total, and the tampering found."""

    passed: int
    total: int
    tamper: tuple[str, ...] = ()
    timed_out: bool = False
    """Whether a command, or the grading as a whole, exceeded its time."""
    left_out: tuple[str, ...] = ()
    """Submitted files that were not graded though they are no tampering."""

    @property
    def success(self) -> bool:
        """Return whether every check passes."""
        return self.passed == self.total > 0

    @property
    def share(self) -> float:
        """Return the share of passing checks, 0 to 1."""
        return self.passed / self.total if self.total else 0.0
