"""What can go wrong in the store, as a person reads it. All survive a process boundary (their arguments are their
message).
"""

from ..errors import TurnwiseError


class StoreError(TurnwiseError):
    """Base of the store's errors."""


class WrongRevision(StoreError):
    """The database's schema is not the one this program was written for."""


class NotFound(StoreError):
    """No such run, group or trajectory."""


class StoreConflict(StoreError):
    """The write contradicts what is stored: another config under a run's name, a transition the state machine has
    not.
    """


class RunHeld(StoreConflict):
    """Another process drives the run."""


class LeaseLost(StoreConflict):
    """A group is no longer leased by the one who would consume it."""


class StoreFull(StoreError):
    """No room on the disk. What was committed stays; the write that failed left nothing."""


class StoreUnavailable(StoreError):
    """The database did not answer, or stayed locked, past the deadline."""


class NotStored(StoreError):
    """A write of a trajectory was lost; no later write of that trajectory is taken."""


class BlobMissing(StoreError):
    """A row names content that is not there."""


class BlobCorrupt(StoreError):
    """Stored content no longer has the hash that names it."""


class StepCorrupt(BlobCorrupt):
    """A step of a trajectory cannot be read as it was written; ``step`` is its index."""

    def __init__(self, message: str, step: int = -1) -> None:
        super().__init__(message, step)
        self.step = step

    def __str__(self) -> str:
        return str(self.args[0])
