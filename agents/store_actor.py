"""The store writer: one Ray actor per node that commits the writes of the node's processes.

SQLite allows one writer, and its run has one node. With PostgreSQL, one writer per node makes fewer and larger commits
than one per process would.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from time import monotonic, process_time
from typing import Any

from ..base.logs import LogFolder
from ..store.database import Database, open_database
from ..store.database_errors import RETRY_S, retried
from ..store.errors import StoreError
from ..store.operations import Write
from ..store.writing.client import Send
from ..store.writing.commit_queue import Answers, CommitQueue
from .placement import lost_actor

RETRY_INTERVAL_S = 0.2
"""Pause between two calls to an actor that is restarting."""


class StoreActor:
    """The process that writes to the store for one node. The run makes it a Ray actor.

    It opens the store at its first call. A store that cannot be opened is thus an answer with its cause, and the next
    call tries again.
    """

    def __init__(self, url: str, blobs: str | None, logs: LogFolder | None = None, retry_s: float = RETRY_S) -> None:
        """``url`` and ``blobs`` are as for ``open_database``, ``retry_s`` as in ``Database``."""
        if logs is not None:
            logs.attach("store")
        self._url = url
        self._blobs = blobs
        self._retry_s = retry_s
        self._opening = threading.Lock()
        self._database: Database | None = None
        self._writer: CommitQueue | None = None

    async def run(self, writes: list[Write[Any]]) -> Answers:
        """Commit ``writes`` in their order and return one answer per write; an answer is the result or the error."""
        try:
            writer = await asyncio.to_thread(self._open) if self._writer is None else self._writer
        except StoreError as error:
            return [error] * len(writes)
        return await writer.run(writes)

    async def ping(self) -> bool:
        """Return True once the store is open. Raises the StoreError of a store that cannot be opened."""
        await asyncio.to_thread(self._open)
        return True

    async def usage(self) -> dict[str, float]:
        """Return the seconds of processor time of this process so far."""
        return {"cpu_s": process_time()}

    async def close(self) -> None:
        """Commit the queued writes and stop."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)
        if self._database is not None:
            await asyncio.to_thread(self._database.close)

    def _open(self) -> CommitQueue:
        with self._opening:
            if self._writer is None:
                self._database = retried(lambda: open_database(self._url, blobs=self._blobs), self._retry_s)
                self._database.retry_s = self._retry_s
                self._writer = CommitQueue(self._database)
            return self._writer


def nearest_writer(writers: Mapping[str, Any]) -> Any:
    """Return the ``StoreActor`` of this process's node, from ``writers`` by node id; of another one if it has none."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    return writers[node] if node in writers else next(iter(writers.values()))


def send_to(actor: Any, note: Callable[[str], None] = lambda text: None) -> Send:
    """Return a function that sends writes to a ``StoreActor`` actor, and repeats the call while the actor restarts.

    A repeated write is harmless: every operation of the store is idempotent. ``StoreClient`` bounds the wait.

    Args:
        note: receives a line for the user when the actor has died.
    """

    async def send(writes: list[Write[Any]]) -> Answers:
        began, is_lost = monotonic(), False
        while True:
            spent = monotonic() - began
            try:
                answers: Answers = await actor.run.remote([write.within(write.left_s - spent) for write in writes])
            except lost_actor():
                if not is_lost:
                    note("the process that writes to the store died; Ray starts it again")
                is_lost = True
                await asyncio.sleep(RETRY_INTERVAL_S)
            else:
                return answers

    return send
