"""Pool in numbers."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PoolHealth:
    """Current state of a pool, and its counters since it was opened."""

    capacity: int
    memory_mib: int
    """Limit of the memory of all sandboxes together."""
    held_mib: int
    """Memory of the idle, leased, starting and resetting sandboxes together."""
    idle: int
    leased: int
    starting: int
    resetting: int
    waiting: int
    """Lease requests without a sandbox."""
    leases: int
    started: int
    start_failures: int
    reset_failures: int
    overdue: int
    """Leases that the pool ended at their maximum duration."""
    reaped: int
    """Sandboxes that the backend removed because their owner was dead or their time to live had ended."""
    loop_lag_ms: float
    """Maximum lag of the event loop."""
    breaker_open: bool
    last_failure: str

    def json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)
