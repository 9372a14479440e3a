"""The metrics of a run: one JSON line per record in the run's folder, and the same numbers for its trackers."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

from .trackers.base import TrackedRun, numbers
from .trackers.thread import TrackerThread

FINISH_TIMEOUT_S = 15.0
"""Seconds at the end of a run that the driver waits for its trackers to send the last records, for all together."""


class Metrics:
    """Writer of ``metrics.jsonl``; one instance per run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "metrics.jsonl"
        self._file = self._path.open("a", encoding="utf-8")
        self._trackers: list[TrackerThread] = []
        self._warn: Callable[[str], None] = lambda text: None

    def rewind(self, update: int | None) -> None:
        """Drop the records after ``update`` (None: all), which a resume abandons. The file is replaced by a rename."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if update is not None and _recorded_by(line, update)]
        temporary = self._path.with_suffix(".writing")
        temporary.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file.close()
        temporary.replace(self._path)
        self._file = self._path.open("a", encoding="utf-8")

    def start_trackers(
        self, names: Sequence[str], run: TrackedRun, config: Mapping[str, Any], warn: Callable[[str], None]
    ) -> None:
        """Start trackers, which receive the records from here on. ``warn`` receives one line per tracker that fails."""
        self._warn = warn
        self._trackers = [TrackerThread(name, run, config) for name in dict.fromkeys(names)]

    def write(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Record ``values`` at ``step`` updates; numbers that are not finite become null."""
        record = finite({"kind": kind, "update": step, **values})
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        metrics = numbers(record)
        for tracker in self._trackers:
            if metrics:
                tracker.put((step, metrics))
            if failure := tracker.failure():
                self._warn(failure)

    def finish(self, status: str) -> None:
        """Close the file, and pass the status of the run to the trackers, which then end by themselves."""
        self._file.close()
        for tracker in self._trackers:
            tracker.put(status)

    def close(self, timeout_s: float = inf) -> None:
        """Wait for the trackers, at most ``FINISH_TIMEOUT_S`` and ``timeout_s``. Blocks."""
        began, timeout_s = monotonic(), min(timeout_s, FINISH_TIMEOUT_S)
        for tracker in self._trackers:
            if failure := tracker.close(began, timeout_s):
                self._warn(failure)


def _recorded_by(line: str, update: int) -> bool:
    """Return whether a record is of ``update`` or before; false for a line that a killed process left incomplete."""
    try:
        return int(json.loads(line)["update"]) <= update
    except (ValueError, KeyError, TypeError):
        return False


def finite(value: Any) -> Any:
    """Return the value with None for every number that JSON cannot represent."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    return value
