"""The one thread of a process that writes to the store. It collects for a few milliseconds the writes that many callers
submit, commits them in one transaction, then answers them. A call of many writes has one future.

* An answered write is committed. Each write succeeds or fails alone: if one of a batch fails, the batch is rolled back
  and its writes run again one by one, which is safe because every operation is idempotent.
* Every write has a deadline, set where it was submitted. A write past its deadline is not begun.
* A store that is away is waited for once: after ``retry_s`` the batch fails, and with it every write that queued up
  meanwhile.
* ``operations.batches`` runs a batch in few statements.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from ..content.blobs import BlobStore
from ..content.rows import INLINE_TEXT, text_columns
from ..database import Database
from ..database_errors import RETRY_S, retried
from ..errors import StoreError, StoreFull, StoreUnavailable
from ..operations import Write, acknowledge, append, finish_trajectory, run_writes, set_checkpoint

LOG = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BATCH = 1024
"""Writes per transaction at most."""
BATCHING_WINDOW_MS = 4.0
"""Milliseconds that the first write of a batch waits for others."""
WRITE_TIMEOUT_S = 120.0
"""Seconds from the submission of a write to its deadline, unless its caller sets another one."""

_DURABLE = frozenset(one.name for one in (acknowledge, set_checkpoint))
"""Operations whose commit is on the disk when it returns. Others survive the death of a process; after a power cut, the
newest of them may be missing. These two name files, and older files are deleted once they are committed.
"""


class TimedWrite(NamedTuple):
    """A write and the seconds that are left until its deadline: a duration, because hosts do not share a clock."""

    write: Write[Any]
    left_s: float


class Answer(NamedTuple):
    """The result of one write, or the exception that it raised."""

    committed: bool
    value: Any


_DONE = Answer(True, None)
"""The answer of a write without a result."""


class _Call:
    """Writes that were submitted together, and the future of their answers."""

    __slots__ = ("_answers", "_begun", "_submitted", "_unanswered", "deadline", "future", "writes")

    def __init__(self, writes: Sequence[TimedWrite]) -> None:
        self.future: Future[list[Answer]] = Future()
        self.writes = writes
        self._submitted = monotonic()
        self.deadline = self._submitted + min(one.left_s for one in writes)
        """The first deadline of the writes."""
        self._answers: list[Any] = [None] * len(writes)
        self._unanswered = len(writes)
        self._begun = False

    def begin(self) -> bool:
        """Return False if the caller cancelled the call before its first write was begun."""
        if not self._begun and not self.future.cancelled():
            self._begun = self.future.set_running_or_notify_cancel()
        return self._begun

    def is_answered(self, position: int) -> bool:
        return self._answers[position] is not None

    def deadline_of(self, position: int) -> float:
        return self._submitted + self.writes[position].left_s

    def answer(self, position: int, answer: Answer) -> None:
        """Answer one write; the last answer resolves the future."""
        self._answers[position] = answer
        self._unanswered -= 1
        if not self._unanswered:
            self.future.set_result(self._answers)

    def answer_all(self, results: Iterable[Any]) -> None:
        """Answer all writes by their results."""
        self._answers, self._unanswered = [_DONE if one is None else Answer(True, one) for one in results], 0
        self.future.set_result(self._answers)


class _Item(NamedTuple):
    """A write: its call, and its place in the call."""

    call: _Call
    position: int
    write: Write[Any]

    def is_in_time(self, now: float) -> bool:
        """Return whether the deadline is ahead; else fail the write."""
        if now < self.call.deadline or now < self.call.deadline_of(self.position):
            return True
        self.fail(overdue(self.write, self.call.writes[self.position].left_s))
        return False

    def fail(self, error: BaseException) -> None:
        self.call.answer(self.position, Answer(False, error))


class Writer:
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
        self._thread = threading.Thread(target=self._serve, name="turnwise-writer", daemon=True)
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

        def resolve(call: "Future[list[Answer]]") -> None:
            (answer,) = call.result()
            if answer.committed:
                future.set_result(answer.value)
            else:
                future.set_exception(answer.value)

        self.submit_all([TimedWrite(write, timeout_s)]).add_done_callback(resolve)
        return future

    def submit_all(self, writes: Sequence[TimedWrite]) -> "Future[list[Answer]]":
        """Queue writes, at least one, in their order; the future holds one answer per write once each has one.

        A write whose deadline has passed fails with StoreUnavailable instead of being begun. A cancelled future cancels
        the call if none of its writes was begun.

        Raises:
            StoreError: the writer is closed.
        """
        call = _Call(writes)
        with self._changed:
            if self._closing:
                raise StoreError(f"`{writes[0].write.operation}` was not stored: the store's writer is closed")
            queued = self._pending
            self._queue.append(call)
            self._pending += len(writes)
            if not queued or queued < MAX_BATCH <= self._pending:
                self._changed.notify()
        return call.future

    def commit(self, write: Write[T], timeout_s: float = 60.0) -> T:
        """Queue a write and return its result once it is committed. Raises the write's exception, or TimeoutError."""
        return self.submit(write, timeout_s).result(timeout_s)

    async def run(self, writes: Sequence[TimedWrite]) -> list[Answer]:
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
            if not begun:
                continue
            try:
                self._commit(begun)
            except BaseException as error:
                items = [item for item in _items(begun) if not item.call.is_answered(item.position)]
                LOG.exception("a batch of writes failed", extra={"writes": len(items)})
                _fail(items, error)

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

    def _commit(self, calls: list[_Call]) -> None:
        items: list[_Item] | None = None
        began = monotonic()
        try:
            if self._run_whole(calls):
                return
            # The store is waited for once; staging takes its own time.
            waited_s = monotonic() - began
            items = [item for item in _items(calls) if not _has_content(item.write) or self._stage(item)]
            self._run(items, self._retry_s - waited_s)
        except StoreUnavailable as error:
            self._give_up(_items(calls) if items is None else items, error)
        except StoreFull as error:
            _fail(_items(calls) if items is None else items, error)
        except Exception as error:
            items = _items(calls) if items is None else items
            if len(items) == 1:
                _fail(items, error)
                return
            LOG.info(
                "a batch of writes failed; each write is now committed separately",
                exc_info=True,
                extra={"writes": len(items)},
            )
            self._run_separately(items)

    def _run_whole(self, calls: list[_Call]) -> bool:
        """Run calls in one transaction and answer them, with little work per write; return False, and do nothing, if a
        write is late or has content to stage. Raises as ``_run`` does.
        """
        writes = [one.write for call in calls for one in call.writes]
        if any(map(_has_content, writes)):
            return False

        def attempt() -> list[Any] | None:
            now = monotonic()
            return None if any(call.deadline <= now for call in calls) else self._transact(writes)

        if (found := retried(attempt, self._retry_s)) is None:
            return False
        results = iter(found)
        for call in calls:
            call.answer_all(islice(results, len(call.writes)))
        return True

    def _run_separately(self, items: list[_Item]) -> None:
        for position, item in enumerate(items):
            try:
                self._run([item], self._retry_s)
            except StoreUnavailable as error:
                self._give_up(items[position:], error)
                return
            except Exception as error:  # noqa: BLE001 - raised where the write is awaited
                _fail([item], error)

    def _give_up(self, items: Iterable[_Item], error: StoreUnavailable) -> None:
        """Fail ``items``, and the writes that queued up while the store was away: they have waited for it, too."""
        with self._changed:
            queued, self._queue, self._pending = self._queue, deque(), 0
        _fail([*items, *_items(call for call in queued if call.begin())], error)

    def _stage(self, item: _Item) -> bool:
        """Write and sync large content before the transaction begins, so that no lock is held during these writes.

        The process that made the write has staged most of it already.
        """
        try:
            _stage_content(self._database.blobs, item.write)
        except Exception as error:  # noqa: BLE001 - raised where the write is awaited
            item.fail(error)
            return False
        return True

    def _run(self, items: list[_Item], retry_s: float) -> None:
        """Run ``items`` in one transaction and resolve them; items past their deadline fail and leave the list.

        Raises:
            StoreUnavailable: the database was locked or away for ``retry_s``; no other item is resolved.
        """

        def attempt() -> list[Any]:
            now = monotonic()
            items[:] = [item for item in items if item.is_in_time(now)]
            if not items:
                return []
            return self._transact([item.write for item in items])

        results = retried(attempt, retry_s)
        for item, result in zip(items, results, strict=True):
            item.call.answer(item.position, _DONE if result is None else Answer(True, result))

    def _transact(self, writes: Sequence[Write[Any]]) -> list[Any]:
        durable = not _DURABLE.isdisjoint([write.operation for write in writes])
        with self._database.transaction(durable=durable) as tx:
            return run_writes(tx, writes)


def overdue(write: Write[Any], timeout_s: float) -> StoreUnavailable:
    """Return the error of a write that passed its deadline."""
    return StoreUnavailable(
        f"`{write.operation}` was not committed within {timeout_s:g} s: the store is too slow or does not answer; "
        "check its disk and its server, then run the same command again"
    )


def _items(calls: Iterable[_Call]) -> list[_Item]:
    return [_Item(call, at, one.write) for call in calls for at, one in enumerate(call.writes)]


def _has_content(write: Write[Any]) -> bool:
    """Return whether a write may have large content that is not staged."""
    if write.operation == append.name:
        return bool(write.arguments["rows"].blobs)
    if write.operation != finish_trajectory.name:
        return False
    final = write.arguments.get("final_observation")
    return bool(write.arguments.get("final_images")) or (final is not None and len(final) > INLINE_TEXT)


def _stage_content(blobs: BlobStore, write: Write[Any]) -> None:
    if write.operation == append.name:
        write.arguments["rows"].stage(blobs)
    else:
        new = {one.hash: one for one in write.arguments.get("final_images", ())}
        text_columns(new, "final_observation", write.arguments.get("final_observation") or "")
        for one in new.values():
            blobs.stage(one)


def _fail(items: Iterable[_Item], error: BaseException) -> None:
    for item in items:
        item.fail(error)
