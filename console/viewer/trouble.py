"""The errors of pages: their statuses, and the upgrade of the store that explains one."""

from sqlalchemy.exc import DBAPIError

from ...errors import TurnwiseError
from ...store.database import Database, check_revision
from ...store.errors import BlobMissing, NotFound, Pruned, StoreUnusable, WrongRevision
from .downloads import NoRoom
from .given import BadAddress

STATUSES: dict[type[TurnwiseError], int] = {
    BadAddress: 400,
    NotFound: 404,
    BlobMissing: 404,
    Pruned: 410,
    StoreUnusable: 503,
    WrongRevision: 503,
    NoRoom: 507,
}
"""The status of a response by the error of its page; 409 for every other one: the store holds something unexpected."""


def cause_of(database: Database, error: TurnwiseError | DBAPIError) -> TurnwiseError:
    """Return the upgrade of the store underneath that explains the error of a query, or else that error.

    Raises:
        DBAPIError: no upgrade explains the error of the database.
    """
    try:
        if not isinstance(error, NotFound | BadAddress):
            check_revision(database)
    except TurnwiseError as cause:
        return cause
    if isinstance(error, DBAPIError):
        raise error
    return error


def status_of(error: TurnwiseError) -> int:
    """Return the status of a response whose page raised ``error``."""
    return next((status for kind, status in STATUSES.items() if isinstance(error, kind)), 409)
