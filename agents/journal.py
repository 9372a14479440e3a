"""The way of every write into the store: operations in order, a few milliseconds' worth at a time.

On SQLite one process commits for all: the ``StoreWriter`` actor, to which each journal sends. On PostgreSQL each
process has a ``Writer`` of its own behind its journal. Either way a future resolves after the commit, so awaiting it
means durable. All operations are idempotent, so a call whose answer was lost is sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from ..errors import TurnwiseError
from ..store.database import Database, open_database
from ..store.writer import Writer

Operation = tuple[str, dict[str, Any]]
Answer = tuple[bool, Any]
"""Whether the operation was committed, and its result or its exception."""
Send = Callable[[list[Operation]], Awaitable[list[Answer]]]

LINGER = 0.008
"""Seconds a journal collects before it sends."""
DEADLINE = 120.0
"""Seconds a commit may take, a restart of the writing process included."""


class StoreUnreachable(TurnwiseError):
    """The store did not answer before the deadline."""


async def run_operations(writer: Writer, operations: list[Operation]) -> list[Answer]:
    """Commit operations through a local writer; failures come back as values, so that one does not hide the others."""
    futures: list[Future[Any]] = [writer.submit(name, **arguments) for name, arguments in operations]
    answers = await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
    return [(not isinstance(answer, BaseException), answer) for answer in answers]


class StoreWriter:
    """The one process that writes to an SQLite store; made a Ray actor by the run."""

    def __init__(self, url: str) -> None:
        self._writer = Writer(open_database(url))

    async def run(self, operations: list[Operation]) -> list[Answer]:
        """See ``run_operations``."""
        return await run_operations(self._writer, operations)

    async def ping(self) -> bool:
        """Answer, to show that the process is up."""
        return True

    async def close(self) -> None:
        """Commit what is queued and stop."""
        await asyncio.to_thread(self._writer.close)


def through_actor(actor: Any) -> Send:
    """Send to a ``StoreWriter`` actor, again while it is being restarted.

    Raises:
        StoreUnreachable: from the sending, after ``DEADLINE`` seconds.
    """

    async def send(operations: list[Operation]) -> list[Answer]:
        import ray.exceptions

        try:
            async with asyncio.timeout(DEADLINE):
                while True:
                    try:
                        answers: list[Answer] = await actor.run.remote(operations)
                    except ray.exceptions.RayActorError:
                        await asyncio.sleep(0.2)
                    else:
                        return answers
        except TimeoutError:
            raise StoreUnreachable(
                f"the store's writing process did not commit {len(operations)} operations within {DEADLINE:g} s"
            ) from None

    return send


def through_writer(database: Database) -> tuple[Send, Writer]:
    """Send to a writer in this process."""
    writer = Writer(database)

    async def send(operations: list[Operation]) -> list[Answer]:
        return await run_operations(writer, operations)

    return send, writer


class Journal:
    """Collects operations and sends them in order, one call under way at a time."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._queue: list[tuple[Operation, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, name: str, /, **arguments: Any) -> asyncio.Future[Any]:
        """Queue an operation. The future need not be awaited; an error then stands in the next one that is."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        self._queue.append(((name, arguments), future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return future

    async def commit(self, name: str, /, **arguments: Any) -> Any:
        """Queue an operation and wait until it, and all before it, is durable.

        Raises:
            TurnwiseError: the store could not take it.
        """
        return await self.put(name, **arguments)

    async def flush(self) -> None:
        """Wait until all that was put is durable."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def _drain(self) -> None:
        while self._queue:
            await asyncio.sleep(LINGER)
            batch, self._queue = self._queue, []
            try:
                answers = await self._send([operation for operation, _ in batch])
            except Exception as error:
                answers = [(False, error)] * len(batch)
            for (_, future), (done, answer) in zip(batch, answers, strict=True):
                if future.cancelled():
                    continue
                if done:
                    future.set_result(answer)
                else:
                    future.set_exception(answer)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
