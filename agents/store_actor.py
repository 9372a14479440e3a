"""The process that writes to an SQLite store for all others, as a Ray actor, and the way to it.

SQLite takes one writer, so the driver and every rollout worker send their writes to one ``StoreWriter``. On PostgreSQL
each process has its own ``Writer``, and this actor is not started.
"""

import asyncio
from typing import Any

from ..logs import LogFolder
from ..store.client import Send
from ..store.database import open_database
from ..store.errors import StoreUnavailable
from ..store.operations import Write
from ..store.writer import Answer, Writer

COMMIT_TIMEOUT_S = 120.0
"""Seconds that a commit may take, a restart of the writing process included."""
RESTART_PAUSE_S = 0.2
"""Seconds between two calls to a process that is being restarted."""


class StoreWriter:
    """The only process that writes to an SQLite store; the run makes it a Ray actor."""

    def __init__(self, url: str, logs: LogFolder | None = None) -> None:
        if logs is not None:
            logs.attach("store")
        self._writer = Writer(open_database(url))

    async def run(self, writes: list[Write[Any]]) -> list[Answer]:
        """Commit writes in their order; failures are returned."""
        return await self._writer.run(writes)

    async def ping(self) -> bool:
        """Return True once the process is up."""
        return True

    async def close(self) -> None:
        """Commit what is queued and stop."""
        await asyncio.to_thread(self._writer.close)


def send_to(actor: Any) -> Send:
    """Return the way to a ``StoreWriter`` actor: a call is repeated while the actor is being restarted.

    Raises:
        StoreUnavailable: from the call, after ``COMMIT_TIMEOUT_S``.
    """

    async def send(writes: list[Write[Any]]) -> list[Answer]:
        import ray.exceptions

        try:
            async with asyncio.timeout(COMMIT_TIMEOUT_S):
                while True:
                    try:
                        answers: list[Answer] = await actor.run.remote(writes)
                    except ray.exceptions.RayActorError:
                        await asyncio.sleep(RESTART_PAUSE_S)
                    else:
                        return answers
        except TimeoutError:
            raise StoreUnavailable(
                f"the store's writing process did not commit {len(writes)} writes within {COMMIT_TIMEOUT_S:g} s; "
                "look for `StoreWriter` in Ray's logs"
            ) from None

    return send
