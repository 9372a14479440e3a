"""The store that a command reads, opened for as long as the command needs it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..store.database import Database


@contextmanager
def opened(url: str) -> "Iterator[Database]":
    """The store at ``url``, which must be there and at this program's revision.

    Raises:
        WrongRevision: it is at another revision; the message says what to do.
        StoreError: there is none, or it does not answer.
    """
    from ..store.database import open_database

    database = open_database(url)
    try:
        yield database
    finally:
        database.close()
