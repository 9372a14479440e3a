"""The path of writes from an event loop into the store: in order, and never with a part of a trajectory missing.

A client sends one call at a time; writes submitted during a call go with the next one. The queue at the other end
collects the calls of all clients (``commit_queue.BATCHING_WINDOW_MS``), which is the only wait on the way to a commit.
A future resolves after the commit, so awaiting it means durable.

* After a trajectory has lost one write, every later write of it fails with the error of the lost write, including the
  write that would end the trajectory.
* A write has a deadline, which is set when it is submitted and travels with it. It is answered by then.
* Large content is written to the blob folder here, in threads, before the write that names it is sent. So the writer
  and the path to it carry hashes instead of images.
* Writes that are not committed yet are bounded: a producer calls ``wait_for_room`` before it makes the next ones.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from time import monotonic
from typing import Any, TypeVar

from ...errors import TurnwiseError
from ..content.blobs import BlobStore
from ..errors import NotStored
from ..operations import Write
from ..operations.transaction import WRITE_TIMEOUT_S
from .commit_queue import Answers, overdue

LOG = logging.getLogger(__name__)

T = TypeVar("T")

Send = Callable[[list[Write[Any]]], Awaitable[Answers]]
"""Commits writes in their order and returns the result or exception of each (``CommitQueue.run``)."""

MAX_PENDING_WRITES = 4096
"""Writes that may be pending before ``wait_for_room`` waits."""
MAX_PENDING_BYTES = 32 << 20
"""Bytes of pending writes, large content included, before ``wait_for_room`` waits."""
MAX_CALL_WRITES = 512
"""Writes per call."""
MAX_CALL_BYTES = 4 << 20
"""Bytes per call, above which no further write is added: a call to another process is in memory several times."""
ANSWER_GRACE_S = 5.0
"""Seconds beyond the deadline for which the writer's answer is waited for, since it names the cause."""


@dataclass(slots=True)
class _Pending:
    write: Write[Any]
    future: "asyncio.Future[Any]"
    held_bytes: int
    """Bytes of the write as it was submitted."""
    timeout_s: float
    deadline: float
    staging: "asyncio.Future[Write[Any]] | None"

    @property
    def left_s(self) -> float:
        return self.deadline - monotonic()

    @property
    def is_staged(self) -> bool:
        return self.staging is None or self.staging.done()

    def call_bytes(self) -> int:
        """Return the bytes of the write as it is sent: without the content that was staged."""
        return self.held_bytes if self.staging is None else size_of(self.write.record)


class StoreClient:
    """Submits the writes of one event loop to a writer."""

    def __init__(self, send: Send, blobs: BlobStore | None = None, retry_s: float = 0.0) -> None:
        """``blobs`` is the store's place for large content; None keeps all content in the writes. A write has at least
        ``retry_s`` seconds to its deadline.
        """
        self._send = send
        self._timeout_s = max(WRITE_TIMEOUT_S, retry_s)
        self._blobs = blobs or BlobStore(None)
        self._queue: deque[_Pending] = deque()
        self._task: asyncio.Task[None] | None = None
        self._lost: dict[str, TurnwiseError] = {}
        """The first error of each trajectory that lost a write."""
        self._writes = 0
        """Writes that are not answered yet."""
        self._bytes = 0
        """Their bytes."""
        self._room = asyncio.Event()
        self._full_since: float | None = None

    def submit(self, write: Write[T], timeout_s: float | None = None) -> "asyncio.Future[T]":
        """Queue a write. Its future need not be awaited if it belongs to a trajectory: an error then fails every later
        write of that trajectory too.

        Args:
            timeout_s: seconds to the write's deadline.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)
        staging = asyncio.ensure_future(asyncio.to_thread(write.staged, self._blobs)) if write.blobs else None
        size = size_of(write.record)
        self._queue.append(_Pending(write, future, size, timeout_s, monotonic() + timeout_s, staging))
        self._writes += 1
        self._bytes += size
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._drain())
        return future

    async def commit(self, write: Write[T]) -> T:
        """Submit a write and wait until it, and all submitted before it for the same trajectory, is durable.

        Raises:
            TurnwiseError: the store could not take it, or an earlier write of its trajectory.
        """
        return await self.submit(write)

    async def wait_for_room(self) -> None:
        """Wait while too many writes, or too many bytes, are pending. The deadlines of these writes bound the wait."""
        while self._is_full():
            if self._full_since is None:
                self._full_since = monotonic()
                LOG.warning(
                    "episodes wait for the store, which does not commit as fast as they play",
                    extra={"pending_writes": self._writes, "pending_bytes": self._bytes},
                )
            self._room.clear()
            await self._room.wait()

    def check(self, trajectory: str) -> None:
        """Raise early if a write was lost, without a wait for the writes under way.

        Raises:
            TurnwiseError: the store could not take a write of this trajectory.
        """
        if (error := self._lost.get(trajectory)) is not None:
            raise error

    async def flush(self) -> None:
        """Wait until all that was submitted is durable or has failed."""
        while self._task is not None and not self._task.done():
            await asyncio.shield(self._task)

    def _is_full(self) -> bool:
        return self._writes >= MAX_PENDING_WRITES or self._bytes >= MAX_PENDING_BYTES

    async def _drain(self) -> None:
        while self._queue:
            call = await self._next_call()
            for one, answer in zip(call, await self._answers(call), strict=True):
                self._resolve(one, answer)
                self._release(one)

    async def _next_call(self) -> list[_Pending]:
        """Take the oldest writes from the queue, as many as one call may carry.

        Wait only until the content of the first one is staged: a call does not wait for what comes behind it.
        """
        call: list[_Pending] = []
        size = 0
        while self._queue and len(call) < MAX_CALL_WRITES and size < MAX_CALL_BYTES:
            if call and not self._queue[0].is_staged:
                break
            one = self._queue.popleft()
            if await self._is_ready(one):
                call.append(one)
                size += one.call_bytes()
            else:
                self._release(one)
        return call

    async def _is_ready(self, one: _Pending) -> bool:
        """Wait until the write's content is staged, and return whether it can be sent; else fail it."""
        try:
            if one.staging is not None:
                async with asyncio.timeout(max(one.left_s, 0.0)):
                    one.write = await one.staging
        except TimeoutError:
            self._resolve(one, overdue(one.write, one.timeout_s))
            return False
        except Exception as error:  # noqa: BLE001 - raised where the write is awaited
            self._resolve(one, error)
            return False
        if self._refused(one):
            return False
        if one.left_s > 0:
            return True
        self._resolve(one, overdue(one.write, one.timeout_s))
        return False

    async def _answers(self, ready: Sequence[_Pending]) -> Answers:
        if not ready:
            return []
        writes = [one.write.within(one.left_s) for one in ready]
        try:
            async with asyncio.timeout(max(one.left_s for one in writes) + ANSWER_GRACE_S):
                return await self._send(writes)
        except TimeoutError:
            return [overdue(one.write, one.timeout_s) for one in ready]
        except Exception as error:  # noqa: BLE001 - every write of the call gets it
            return [error] * len(ready)

    def _release(self, one: _Pending) -> None:
        """Take an answered write from the pending ones."""
        self._writes -= 1
        self._bytes -= one.held_bytes
        if self._is_full():
            return
        if self._full_since is not None:
            waited_s = round(monotonic() - self._full_since, 1)
            LOG.info("episodes no longer wait for the store", extra={"waited_s": waited_s})
            self._full_since = None
        self._room.set()

    def _resolve(self, one: _Pending, answer: Any) -> None:
        if self._refused(one):
            return
        failed = isinstance(answer, BaseException)
        if failed:
            self._remember(one.write, answer)
        if one.future.cancelled():
            return
        if failed:
            one.future.set_exception(answer)
        else:
            one.future.set_result(answer)

    def _refused(self, one: _Pending) -> bool:
        """Fail a write of a trajectory that lost an earlier one."""
        error = self._lost.get(one.write.trajectory)
        if error is not None and not one.future.done():
            one.future.set_exception(error)
        return error is not None

    def _remember(self, write: Write[Any], error: BaseException) -> None:
        trajectory = write.trajectory
        if not trajectory:
            return
        if not isinstance(error, TurnwiseError):
            cause = error
            why = (str(cause).strip() or "no reason given").splitlines()[0]
            error = NotStored(f"`{write.operation}` of trajectory {trajectory} failed: {type(cause).__name__}: {why}")
            error.__cause__ = cause
        self._lost[trajectory] = error


def _retrieve(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()


_VALUE_BYTES = 8
"""Size that counts for a number, a flag and everything that is not text, bytes or made of such."""
_VALUES = frozenset((int, float, bool, type(None)))
_TEXTS = frozenset((str, bytes, bytearray))


def size_of(value: object) -> int:
    """Return the bytes of content in ``value``: of its texts, bytes, arrays and numbers, without Python's overhead."""
    kind: type = type(value)
    if kind in _VALUES:
        return _VALUE_BYTES
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, Mapping):
        return _sum(value.values())
    if isinstance(value, list) and value and type(value[0]) in _VALUES:
        return _VALUE_BYTES * len(value)
    if isinstance(value, list | tuple):
        return _sum(value)
    if names := _fields(kind):
        return _sum(getattr(value, name) for name in names)
    return int(getattr(value, "nbytes", _VALUE_BYTES))


def _sum(values: Iterable[object]) -> int:
    total = 0
    for value in values:
        kind = type(value)
        if kind in _VALUES:  # a call per value would take most of the time
            total += _VALUE_BYTES
        elif kind in _TEXTS:
            total += len(value)  # type: ignore[arg-type]
        else:
            total += size_of(value)
    return total


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass; none for another type."""
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
