"""Access to the store that a command reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..store.database import Database


@contextmanager
def open_store(url: str) -> "Iterator[Database]":
    """Open the store at ``url`` and close it at the end of the block.

    Raises:
        WrongRevision: the store has another revision than this program; the message contains the command to run.
        StoreError: the store does not exist, or the database does not respond.
    """
    from ..store.database import open_database

    database = open_database(url)
    try:
        yield database
    finally:
        database.close()
