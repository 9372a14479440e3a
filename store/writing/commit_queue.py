"""The one thread of a process that writes to the store. It collects for a few milliseconds the writes that many callers
submit, commits them in one transaction, then answers them. A call of many writes has one future.

* An answered write is committed. Each write succeeds or fails alone: if one of a batch fails, the batch is rolled back
  and each half of it is committed on its own, and in the end each write: every operation is idempotent. An error of
  the whole database fails the batch at once.
* Large content is written and synced before the transaction begins, so that no lock is held during these writes. The
  process that made the write has staged most of it already.
* Every write has a deadline, set where it was submitted. A write past its deadline is not begun.
* A store that is away is waited for once: after ``retry_s`` the batch fails, and with it every write that queued up
  meanwhile.
* ``operations.batches`` runs a batch in few statements.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import repeat
from time import monotonic
from typing import Any, TypeVar

from ..database import Database
from ..database_errors import retried
from ..errors import StoreError, StoreFull, StoreGone, StoreUnavailable, StoreUnusable
from ..operations import Write, acknowledge, run_writes, set_checkpoint
from ..operations.transaction import WRITE_TIMEOUT_S

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BATCH = 1024
"""Writes per transaction, unless one call has more."""
BATCHING_WINDOW_MS = 4.0
"""Milliseconds that the first write of a batch waits for others."""
_DURABLE = frozenset(one.name for one in (acknowledge, set_checkpoint))
"""Operations whose commit is on the disk when it returns. Others survive the death of a process; after a power cut, the
newest of them may be missing. These two name files, and older files are deleted once they are committed.
"""


Answers = list[Any]
"""The result of each write, or the exception that it raised."""
_PENDING = object()
"""In place of an answer that is missing."""


class _Call:
    """Writes that were submitted together, and the future of their answers."""

    __slots__ = ("_begun", "_deadline", "answers", "future", "submitted", "writes")

    def __init__(self, writes: Sequence[Write[Any]]) -> None:
        self.future: Future[Answers] = Future()
        self.writes = list(writes)
        self.submitted = monotonic()
        self._deadline = self.submitted + min(write.left_s for write in writes)
        """The first deadline of the writes."""
        self.answers: Answers = [_PENDING] * len(writes)
        self._begun = False

    def begin(self) -> bool:
        """Return False if the caller cancelled the call before its first write was begun."""
        if not self._begun and not self.future.cancelled():
            self._begun = self.future.set_running_or_notify_cancel()
        return self._begun

    def due(self) -> list[int]:
        """Return the positions of the writes to commit; a write whose deadline has passed fails, at once if all do."""
        now = monotonic()
        if now >= self._deadline:
            for position, write in enumerate(self.writes):
                if self.answers[position] is _PENDING and now >= self.submitted + write.left_s:
                    self.answers[position] = overdue(write, write.left_s)
        positions = [position for position, answer in enumerate(self.answers) if answer is _PENDING]
        if not positions:
            self.resolve(iter(()))
        return positions

    def resolve(self, answers: Iterator[Any]) -> int:
        """Give each write without an answer the next one, answer the call, and return how many writes those were."""
        without = self.answers.count(_PENDING)
        self.answers = [next(answers) if answer is _PENDING else answer for answer in self.answers]
        if not self.future.done():
            self.future.set_result(self.answers)
        return without


class CommitQueue:
    """Commits the writes of its callers, which may be on any thread."""

    def __init__(self, database: Database, window_ms: float = BATCHING_WINDOW_MS, retry_s: float | None = None) -> None:
        """``window_ms`` is how long the first write of a batch waits for others; ``retry_s`` how long a batch is
        retried while the database is locked or away, by default ``Database.retry_s``.
        """
        self._database = database
        self._window_s = window_ms / 1000
        self._retry_s = database.retry_s if retry_s is None else retry_s
        self._queue: deque[_Call] = deque()
        self.pending = 0
        """The writes of the calls in the queue."""
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="turnwise-commits", daemon=True)
        self._thread.start()

    def submit(self, write: Write[T], timeout_s: float = WRITE_TIMEOUT_S) -> "Future[T]":
        """Queue a write; the future holds its result once it is committed, or its exception.

        Args:
            timeout_s: seconds to the write's deadline; later it fails with StoreUnavailable instead of being begun.

        Raises:
            StoreError: the writer is closed.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()

        def resolve(call: "Future[Answers]") -> None:
            (answer,) = call.result()
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

        self.submit_all([write.within(timeout_s)]).add_done_callback(resolve)
        return future

    def submit_all(self, writes: Sequence[Write[Any]]) -> "Future[Answers]":
        """Queue writes, at least one, in their order; the future holds one answer per write once each has one.

        A write whose deadline has passed fails with StoreUnavailable instead of being begun. A cancelled future cancels
        the call if none of its writes was begun.

        Raises:
            StoreError: the writer is closed.
        """
        call = _Call(writes)
        with self._changed:
            if self._closing:
                raise StoreError(f"`{writes[0].operation}` was not stored: the store's writer is closed")
            queued = self.pending
            self._queue.append(call)
            self.pending += len(writes)
            if not queued or queued < MAX_BATCH <= self.pending:
                self._changed.notify()
        return call.future

    def commit(self, write: Write[T], timeout_s: float = 60.0) -> T:
        """Queue a write and return its result once it is committed. Raises the write's exception, or TimeoutError."""
        return self.submit(write, timeout_s).result(timeout_s)

    async def run(self, writes: Sequence[Write[Any]]) -> Answers:
        """Commit writes in their order, off the event loop. A failure is an answer: one hides no others."""
        return await asyncio.wrap_future(self.submit_all(writes)) if writes else []

    def close(self, timeout_s: float = 60.0) -> None:
        """Commit the queued writes, then stop; later submissions are rejected.

        Raises:
            StoreUnavailable: that took longer than ``timeout_s`` seconds.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise StoreUnavailable(
                f"the store's writer still had {self.pending} writes to commit after {timeout_s:g} s"
            )

    def _serve(self) -> None:
        while calls := self._next_batch():
            begun = [call for call in calls if call.begin()]
            try:
                for call in begun:
                    self._stage(call)
                self._commit(begun)
            except StoreUnavailable as error:
                self._give_up(begun, error)
            except BaseException as error:
                failed = sum([call.resolve(repeat(error)) for call in begun])
                if not isinstance(error, StoreFull | StoreGone):
                    LOG.exception("a batch of writes failed", extra={"writes": failed})

    def _next_batch(self) -> list[_Call]:
        """Take the oldest calls from the queue, up to ``MAX_BATCH`` writes, and at least one call."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            if self._queue and not self._closing and self.pending < MAX_BATCH:
                self._changed.wait_for(lambda: self._closing or self.pending >= MAX_BATCH, self._window_s)
            calls: list[_Call] = []
            size = 0
            while self._queue and (not calls or size + len(self._queue[0].writes) <= MAX_BATCH):
                calls.append(self._queue.popleft())
                size += len(calls[-1].writes)
            self.pending -= size
            return calls

    def _stage(self, call: _Call) -> None:
        """Write and sync the large content of a call; a write for which that fails is answered with the error."""
        for position, write in enumerate(call.writes):
            if write.blobs:
                try:
                    call.writes[position] = write.staged(self._database.blobs)
                except Exception as error:  # noqa: BLE001 - raised where the write is awaited
                    call.answers[position] = error

    def _commit(self, calls: Sequence[_Call]) -> None:
        """Commit calls in their order, in one transaction. If one of their writes fails, commit each half of the calls,
        and in the end the writes of the call one by one.

        Raises:
            StoreUnusable: the database was locked or away for ``retry_s``, is gone, full, read-only or damaged.
        """

        writes = list[Write[Any]]()

        def attempt() -> list[Any]:
            writes[:] = [call.writes[position] for call in calls for position in call.due()]
            return self._transact(writes)

        try:
            results = iter(retried(attempt, self._retry_s))
        except StoreUnusable:
            raise
        except Exception as error:  # noqa: BLE001 - raised where the writes are awaited
            if len(calls) > 1:
                half = len(calls) // 2
                self._commit(calls[:half])
                self._commit(calls[half:])
            elif len(writes) > 1:
                self._commit_singly(calls[0])
            else:
                calls[0].resolve(repeat(error))
        else:
            for call in calls:
                call.resolve(results)

    def _commit_singly(self, call: _Call) -> None:
        """Commit the writes of a call one by one, in their order."""
        positions = list[int]()

        def attempt() -> list[Any]:
            positions[:] = call.due()[:1]
            return self._transact([call.writes[position] for position in positions])

        while call.due():
            try:
                answers = retried(attempt, self._retry_s)
            except StoreUnusable:
                raise
            except Exception as error:  # noqa: BLE001 - raised where the write is awaited
                answers = [error]
            for position, answer in zip(positions, answers, strict=True):
                call.answers[position] = answer

    def _give_up(self, calls: Iterable[_Call], error: StoreUnavailable) -> None:
        """Fail ``calls``, and those that queued up while the store was away: they have waited for it, too."""
        with self._changed:
            queued, self._queue, self.pending = self._queue, deque(), 0
        for call in [*calls, *(one for one in queued if one.begin())]:
            call.resolve(repeat(error))

    def _transact(self, writes: Sequence[Write[Any]]) -> list[Any]:
        if not writes:
            return []
        durable = not _DURABLE.isdisjoint([write.operation for write in writes])
        with self._database.transaction(durable=durable) as tx:
            return run_writes(tx, writes)


def overdue(write: Write[Any], timeout_s: float) -> StoreUnavailable:
    """Return the error of a write that passed its deadline."""
    return StoreUnavailable(
        f"`{write.operation}` was not committed within {timeout_s:g} s: the store is too slow or does not answer; "
        "check its disk and its server, then run the same command again"
    )
