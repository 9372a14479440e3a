"""The way of every write into the store: operations in order, a few milliseconds' worth at a time.

On SQLite one process commits for all: the ``StoreWriter`` actor, to which each journal sends. On PostgreSQL each
process has a ``Writer`` of its own behind its journal. Either way a future resolves after the commit, so awaiting it
means durable. All operations are idempotent, so a call whose answer was lost is sent again.

A trajectory of which one write was lost takes no other: the journal remembers the first error, and every later
operation on that trajectory, its ending above all, fails with it.
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


class NotStored(TurnwiseError):
    """An earlier write of the same trajectory was lost."""


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
        self._lost: dict[str, TurnwiseError] = {}
        """The first error of each trajectory that lost a write."""

    def put(self, name: str, /, **arguments: Any) -> asyncio.Future[Any]:
        """Queue an operation. The future need not be awaited: where the operation is on a trajectory, its error fails
        every later one on it too.
        """
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        self._queue.append(((name, arguments), future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return future

    async def commit(self, name: str, /, **arguments: Any) -> Any:
        """Queue an operation and wait until it, and all before it on the same trajectory, is durable.

        Raises:
            TurnwiseError: the store could not take it, or an earlier one on its trajectory.
        """
        return await self.put(name, **arguments)

    def check(self, trajectory: str) -> None:
        """Find out early that a write was lost, without waiting for those under way.

        Raises:
            TurnwiseError: the store could not take a write of this trajectory.
        """
        if (error := self._lost.get(trajectory)) is not None:
            raise error

    async def flush(self) -> None:
        """Wait until all that was put is durable."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    async def _drain(self) -> None:
        while self._queue:
            await asyncio.sleep(LINGER)
            queue, self._queue = self._queue, []
            batch = [(operation, future) for operation, future in queue if not self._refused(operation, future)]
            if not batch:
                continue
            try:
                answers = await self._send([operation for operation, _ in batch])
            except Exception as error:
                answers = [(False, error)] * len(batch)
            for (operation, future), (done, answer) in zip(batch, answers, strict=True):
                if self._refused(operation, future):
                    continue
                if not done:
                    self._remember(operation, answer)
                if future.cancelled():
                    continue
                if done:
                    future.set_result(answer)
                else:
                    future.set_exception(answer)

    def _refused(self, operation: Operation, future: asyncio.Future[Any]) -> bool:
        """Fail an operation on a trajectory of which an earlier one was lost."""
        error = self._lost.get(_trajectory(operation))
        if error is not None and not future.done():
            future.set_exception(error)
        return error is not None

    def _remember(self, operation: Operation, error: Exception) -> None:
        trajectory = _trajectory(operation)
        if not trajectory:
            return
        if not isinstance(error, TurnwiseError):
            cause = error
            why = (str(cause).strip() or "no reason given").splitlines()[0]
            error = NotStored(f"{operation[0]} of trajectory {trajectory} failed: {type(cause).__name__}: {why}")
            error.__cause__ = cause
        self._lost[trajectory] = error


def _trajectory(operation: Operation) -> str:
    """The id of the trajectory an operation is on; empty for none."""
    named = operation[1].get("trajectory", "")
    return named if isinstance(named, str) else str(named.id)


def _retrieve(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
