"""One work on the store, retried while the database is locked or away: writes by the writer, reads by ``read``."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from .database import Database
from .errors import StoreUnavailable

RETRY_S = 30.0
"""Seconds of retries before the error is raised."""
PAUSE_S = 0.05
"""Seconds before the first retry; doubles with each, up to ``PAUSE_MAX_S``."""
PAUSE_MAX_S = 2.0

T = TypeVar("T")


def retried(work: Callable[[], T], seconds: float = RETRY_S) -> T:
    """The result of ``work``, called again while it raises StoreUnavailable.

    Raises:
        StoreUnavailable: it did for ``seconds``.
    """
    deadline = time.monotonic() + seconds
    pause = PAUSE_S
    while True:
        try:
            return work()
        except StoreUnavailable:
            if time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX_S)


async def read(database: Database, query: Callable[[Connection], T]) -> T:
    """The result of ``query`` on one snapshot, retried, off the event loop.

    Raises:
        StoreUnavailable: the database did not answer for ``RETRY_S`` seconds.
    """

    def once() -> T:
        with database.read() as conn:
            return query(conn)

    return await asyncio.to_thread(retried, once)
