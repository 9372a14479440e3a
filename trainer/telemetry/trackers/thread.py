"""The thread of one tracker: a run puts records into its queue, and waits for it only at the end, for a while."""

from collections.abc import Mapping
from queue import Full, Queue
from threading import Thread
from time import monotonic
from typing import Any

from ....base.masking import scrubbed
from .base import TrackedRun, tracker_class

MAX_RECORDS = 10_000
"""Records that wait for a tracker. One that lags behind by more is dropped."""
REASON_MAX_CHARS = 300


class TrackerThread:
    """One tracker of a run. It is dropped at its first error."""

    def __init__(self, name: str, run: TrackedRun, config: Mapping[str, Any]) -> None:
        """Start the tracker."""
        self._name = name
        self._queue: Queue[tuple[int, Mapping[str, float]] | str] = Queue(MAX_RECORDS)
        self._error = ""
        self._reported = False
        self._thread = Thread(target=self._follow, args=(run, _scrubbed(config)), name=f"tracker {name}", daemon=True)
        self._thread.start()

    def put(self, item: tuple[int, Mapping[str, float]] | str) -> None:
        """Pass on the numbers of a record, or the status with which the run ended. Never waits."""
        if not self._error:
            try:
                self._queue.put_nowait(item)
            except Full:
                self._error = f"it is {MAX_RECORDS} records behind"

    def failure(self) -> str:
        """Return why the tracker was dropped; empty if it was not, and at every later call."""
        if self._reported or not self._error:
            return ""
        self._reported = True
        return f"tracker `{self._name}` was dropped: {self._error}"

    def close(self, began: float, timeout_s: float) -> str:
        """Wait until the tracker has ended, and return why it failed; empty if it did not. Blocks.

        It is left behind ``timeout_s`` after ``began``, a time of the monotonic clock.
        """
        if not self._error:
            self._thread.join(max(began + timeout_s - monotonic(), 0.0))
        if self._thread.is_alive() and not self._error:
            self._error = f"it did not end within {timeout_s:.2g} s of the run, so its last updates may be missing"
        return self.failure()

    def _follow(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        try:
            tracker = tracker_class(self._name)()
            tracker.start(run, config)
            while not isinstance(item := self._queue.get(), str):
                tracker.log(*item)
            tracker.finish(item)
        except BaseException as error:  # noqa: BLE001 - code of others, which may also call `sys.exit`
            text = scrubbed(" ".join(f"{type(error).__name__}: {error}".split()))
            self._error = self._error or text[:REASON_MAX_CHARS]


def _scrubbed(value: Any) -> Any:
    """Return JSON values with every secret in their texts replaced."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {key: _scrubbed(one) for key, one in value.items()}
    return [_scrubbed(one) for one in value] if isinstance(value, list) else value
