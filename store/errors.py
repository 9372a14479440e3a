"""The errors of the store. Each keeps its message across a process boundary: its arguments are its message."""

from ..errors import TurnwiseError


class StoreError(TurnwiseError):
    """Base of the store's errors."""


class WrongRevision(StoreError):
    """The schema of the database is not the one that this program needs."""


class NotFound(StoreError):
    """The store does not hold this run, group or trajectory."""


class StoreConflict(StoreError):
    """A write contradicts the store: a run has another configuration, or a group cannot change to that state."""


class RunHeld(StoreConflict):
    """Another process drives the run."""


class Fenced(StoreConflict):
    """Another driver has taken over the run, or another writer the trajectory: this process must not write to it."""


class LeaseLost(StoreConflict):
    """The owner of a batch no longer leases one of its groups."""


class StoreUnusable(StoreError):
    """The database as a whole cannot be used, such as one that is read-only or damaged: every write of it fails."""


class StoreFull(StoreUnusable):
    """The disk is full. Committed writes stay; the write that failed changed nothing."""


class StoreUnavailable(StoreUnusable):
    """The database did not answer, or stayed locked, until the timeout."""


class StoreGone(StoreUnusable):
    """The database of the store, or a table of it, does not exist."""


class NotStored(StoreError):
    """A write of a trajectory was lost; no later write of that trajectory is taken."""


class Pruned(StoreError):
    """Retention removed the tokens or observations of this trajectory."""


class BlobMissing(StoreError):
    """A row refers to content that is missing."""


class BlobCorrupt(StoreError):
    """Stored content no longer has the hash that names it."""


class StepCorrupt(BlobCorrupt):
    """The content of a step was altered; ``step`` is its index."""

    def __init__(self, message: str, step: int = -1) -> None:
        super().__init__(message, step)
        self.step = step

    def __str__(self) -> str:
        return str(self.args[0])


class ExchangeError(StoreError):
    """A file cannot be written or read, or its content cannot be imported."""


class MissingPackage(ExchangeError):
    """The package that reads and writes a format is not installed."""
