"""The one thread that writes: it gathers what many callers submit in a few milliseconds, commits it together, then
answers.

An answered write is committed. Each operation succeeds or fails alone: if one of a batch fails, the batch is rolled
back and its operations are run again one by one, which they are made for. Appends of a batch become one insert a
table.
"""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from .database import Database
from .errors import StoreError, StoreUnavailable
from .operations import OPERATIONS, Transaction
from .operations.steps import Append, append_many, stage
from .retry import RETRY_S, retried

MAX_BATCH = 512
"""Operations in one transaction at most."""

_BEFORE_APPENDS = frozenset({"open_group", "start_trajectory", "add_metrics"})
"""Operations that no append of the same batch can come before."""


@dataclass(slots=True)
class _Item:
    name: str
    arguments: dict[str, Any]
    future: "Future[Any]" = field(default_factory=Future)


class Writer:
    """Commits operations for its callers, from any thread. ``linger_ms`` is how long the first of a batch waits for
    company.
    """

    def __init__(self, database: Database, linger_ms: float = 4.0, retry_seconds: float = RETRY_S) -> None:
        self._database = database
        self._linger = linger_ms / 1000
        self._retry_seconds = retry_seconds
        self._queue: deque[_Item] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="turnwise-writer", daemon=True)
        self._thread.start()

    def submit(self, name: str, /, **arguments: Any) -> "Future[Any]":
        """Queues operation ``name``; the future holds its result once it is committed, or what it raised.

        Raises:
            KeyError: there is no such operation.
            StoreError: the writer is closed.
        """
        if name not in OPERATIONS:
            raise KeyError(f"no store operation {name!r}; there are {', '.join(sorted(OPERATIONS))}")
        item = _Item(name, arguments)
        with self._changed:
            if self._closing:
                raise StoreError(f"the store's writer is closed; {name} was not stored")
            self._queue.append(item)
            if len(self._queue) in (1, MAX_BATCH):
                self._changed.notify()
        return item.future

    def call(self, name: str, /, timeout: float = 60.0, **arguments: Any) -> Any:
        """``submit`` and wait for the result. Raises what the operation raises, or TimeoutError."""
        return self.submit(name, **arguments).result(timeout)

    @property
    def pending(self) -> int:
        """How many operations wait."""
        return len(self._queue)

    def close(self, timeout: float = 60.0) -> None:
        """Commits what is queued, then stops; nothing can be submitted any more.

        Raises:
            StoreUnavailable: that took longer than ``timeout`` seconds.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise StoreUnavailable(f"the store's writer still had {self.pending} writes to do after {timeout:g} s")

    def _serve(self) -> None:
        while batch := self._next_batch():
            try:
                self._commit(batch)
            except BaseException as error:
                for item in batch:
                    if not item.future.done():
                        item.future.set_exception(error)

    def _next_batch(self) -> list[_Item]:
        with self._changed:
            while not self._queue and not self._closing:
                self._changed.wait()
            if self._queue and not self._closing and len(self._queue) < MAX_BATCH:
                self._changed.wait_for(lambda: self._closing or len(self._queue) >= MAX_BATCH, self._linger)
            return [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]

    def _commit(self, batch: list[_Item]) -> None:
        live = [item for item in batch if item.future.set_running_or_notify_cancel()]
        staged = [item for item in live if self._stage(item)]
        if not staged:
            return
        try:
            results = self._run(staged)
        except Exception as error:
            if len(staged) == 1:
                staged[0].future.set_exception(error)
                return
            for item in staged:
                self._run_alone(item)
            return
        for item, result in zip(staged, results, strict=True):
            item.future.set_result(result)

    def _stage(self, item: _Item) -> bool:
        """Writes and syncs large images before the transaction begins, so that no lock is held meanwhile."""
        if item.name == "append" and item.arguments.get("observations"):
            try:
                stage(self._database.blobs, item.arguments["observations"])
            except Exception as error:
                item.future.set_exception(error)
                return False
        return True

    def _run_alone(self, item: _Item) -> None:
        try:
            result = self._run([item])[0]
        except Exception as error:
            item.future.set_exception(error)
        else:
            item.future.set_result(result)

    def _run(self, items: Sequence[_Item]) -> list[Any]:
        """One transaction for all ``items``, retried while the database is busy or away."""

        def once() -> list[Any]:
            with self._database.transaction() as tx:
                return _apply(tx, items)

        return retried(once, self._retry_seconds)


def _apply(tx: Transaction, items: Sequence[_Item]) -> list[Any]:
    results: list[Any] = [None] * len(items)
    waiting: list[Append] = []
    for position, item in enumerate(items):
        if item.name == "append":
            waiting.append(Append(**item.arguments))
            continue
        if waiting and not _may_overtake(item, waiting):
            append_many(tx, waiting)
            waiting = []
        results[position] = OPERATIONS[item.name](tx, **item.arguments)
    if waiting:
        append_many(tx, waiting)
    return results


def _may_overtake(item: _Item, waiting: Sequence[Append]) -> bool:
    if item.name == "finish_trajectory":
        return all(one.trajectory != item.arguments.get("trajectory") for one in waiting)
    return item.name in _BEFORE_APPENDS
