"""The one thread of a process that writes to the store. It collects for a few milliseconds the writes that many callers
submit, commits them in one transaction, then answers them. A call of many writes has one future.

* An answered write is committed. Each write succeeds or fails alone: if one of a batch fails, the batch is rolled back
  and each half of it is committed on its own, which is safe because every operation is idempotent. An error of the
  whole database fails the batch at once.
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
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from ..database import Database
from ..database_errors import RETRY_S, retried
from ..errors import StoreError, StoreUnavailable, StoreUnusable
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

    __slots__ = ("_answers", "_begun", "_unanswered", "deadline", "future", "submitted", "writes")

    def __init__(self, writes: Sequence[Write[Any]]) -> None:
        self.future: Future[Answers] = Future()
        self.writes = list(writes)
        self.submitted = monotonic()
        self.deadline = self.submitted + min(one.left_s for one in writes)
        """The first deadline of the writes."""
        self._answers: Answers = [_PENDING] * len(writes)
        self._unanswered = len(writes)
        self._begun = False

    def begin(self) -> bool:
        """Return False if the caller cancelled the call before its first write was begun."""
        if not self._begun and not self.future.cancelled():
            self._begun = self.future.set_running_or_notify_cancel()
        return self._begun

    def answer(self, first: int, answers: Answers) -> None:
        """Answer the writes from ``first`` on; the last answer resolves the future."""
        self._answers[first : first + len(answers)] = answers
        self._unanswered -= len(answers)
        if not self._unanswered:
            self.future.set_result(self._answers)

    def fail(self, error: BaseException) -> int:
        """Fail the writes that have no answer, and return how many those are."""
        failed = self._unanswered
        if failed:
            self._answers = [error if one is _PENDING else one for one in self._answers]
            self._unanswered = 0
            self.future.set_result(self._answers)
        return failed


class _Part(NamedTuple):
    """Writes of a call that follow one another, to be committed."""

    call: _Call
    first: int
    end: int

    @property
    def writes(self) -> list[Write[Any]]:
        return self.call.writes[self.first : self.end]

    def singles(self) -> "Iterator[_Part]":
        return (_Part(self.call, at, at + 1) for at in range(self.first, self.end))

    def fail(self, error: BaseException) -> None:
        self.call.answer(self.first, [error] * (self.end - self.first))


class CommitQueue:
    """Commits the writes of its callers, which may be on any thread."""

    def __init__(self, database: Database, window_ms: float = BATCHING_WINDOW_MS, retry_s: float = RETRY_S) -> None:
        """``window_ms`` is how long the first write of a batch waits for others; ``retry_s`` how long a batch is
        retried while the database is locked or away.
        """
        self._database = database
        self._window_s = window_ms / 1000
        self._retry_s = retry_s
        self._queue: deque[_Call] = deque()
        self._pending = 0
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
            queued = self._pending
            self._queue.append(call)
            self._pending += len(writes)
            if not queued or queued < MAX_BATCH <= self._pending:
                self._changed.notify()
        return call.future

    def commit(self, write: Write[T], timeout_s: float = 60.0) -> T:
        """Queue a write and return its result once it is committed. Raises the write's exception, or TimeoutError."""
        return self.submit(write, timeout_s).result(timeout_s)

    async def run(self, writes: Sequence[Write[Any]]) -> Answers:
        """Commit writes in their order, off the event loop. A failure is an answer: one hides no others."""
        return await asyncio.wrap_future(self.submit_all(writes)) if writes else []

    @property
    def pending(self) -> int:
        """Return how many writes wait."""
        return self._pending

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
                self._commit([part for call in begun for part in self._staged(call)])
            except StoreUnavailable as error:
                self._give_up(begun, error)
            except BaseException as error:
                failed = sum([call.fail(error) for call in begun])
                if not isinstance(error, StoreUnusable):
                    LOG.exception("a batch of writes failed", extra={"writes": failed})

    def _next_batch(self) -> list[_Call]:
        """Take the oldest calls from the queue, up to ``MAX_BATCH`` writes, and at least one call."""
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            if self._queue and not self._closing and self._pending < MAX_BATCH:
                self._changed.wait_for(lambda: self._closing or self._pending >= MAX_BATCH, self._window_s)
            calls: list[_Call] = []
            size = 0
            while self._queue and (not calls or size + len(self._queue[0].writes) <= MAX_BATCH):
                calls.append(self._queue.popleft())
                size += len(calls[-1].writes)
            self._pending -= size
            return calls

    def _staged(self, call: _Call) -> list[_Part]:
        """Write and sync the large content of a call, and return the call without the writes for which that failed."""
        whole = _Part(call, 0, len(call.writes))
        if not any(write.blobs for write in call.writes):
            return [whole]
        lost = set()
        for one in whole.singles():
            try:
                call.writes[one.first] = call.writes[one.first].staged(self._database.blobs)
            except Exception as error:  # noqa: BLE001 - raised where the write is awaited
                one.fail(error)
                lost.add(one)
        return [one for one in whole.singles() if one not in lost] if lost else [whole]

    def _commit(self, parts: list[_Part]) -> None:
        """Commit parts in their order, in one transaction or, if one of their writes fails, half by half.

        Raises:
            StoreUnusable: the database was locked or away for ``retry_s``, is gone, full, read-only or damaged.
        """

        def attempt() -> list[Any]:
            parts[:] = _in_time(parts)
            return self._transact([write for part in parts for write in part.writes]) if parts else []

        try:
            results = iter(retried(attempt, self._retry_s))
        except StoreUnusable:
            raise
        except Exception as error:
            if len(parts) == 1:
                parts = list(parts[0].singles())
            if len(parts) == 1:
                parts[0].fail(error)
                return
            LOG.info("a batch of writes failed; its halves are committed", exc_info=True, extra={"parts": len(parts)})
            half = len(parts) // 2
            self._commit(parts[:half])
            self._commit(parts[half:])
        else:
            for call, first, end in parts:
                call.answer(first, list(islice(results, end - first)))

    def _give_up(self, calls: Iterable[_Call], error: StoreUnavailable) -> None:
        """Fail ``calls``, and those that queued up while the store was away: they have waited for it, too."""
        with self._changed:
            queued, self._queue, self._pending = self._queue, deque(), 0
        for call in [*calls, *(one for one in queued if one.begin())]:
            call.fail(error)

    def _transact(self, writes: Sequence[Write[Any]]) -> list[Any]:
        durable = not _DURABLE.isdisjoint([write.operation for write in writes])
        with self._database.transaction(durable=durable) as tx:
            return run_writes(tx, writes)


def _in_time(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts without the writes whose deadline has passed, which fail."""
    now = monotonic()
    kept: list[_Part] = []
    for part in parts:
        if now < part.call.deadline:
            kept.append(part)
            continue
        for one in part.singles():
            (write,) = one.writes
            if now < part.call.submitted + write.left_s:
                kept.append(one)
            else:
                one.fail(overdue(write, write.left_s))
    return kept


def overdue(write: Write[Any], timeout_s: float) -> StoreUnavailable:
    """Return the error of a write that passed its deadline."""
    return StoreUnavailable(
        f"`{write.operation}` was not committed within {timeout_s:g} s: the store is too slow or does not answer; "
        "check its disk and its server, then run the same command again"
    )
