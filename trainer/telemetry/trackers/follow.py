"""The process of one tracker: reads the records of a run from ``metrics.jsonl`` until the run ends.

Its first line on stdin is the order (``process``), its second the status with which the run ended. The end of stdin
without a status means that the driver was killed. From there on, this process has ``ORPHAN_TIMEOUT_S`` to end.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any, BinaryIO

from .base import TrackedRun, numbers, tracker_class

POLL_INTERVAL_S = 0.5
"""Seconds between two looks for new records."""
ORPHAN_TIMEOUT_S = 90.0
"""Seconds to send the last records if the driver was killed; then this process and all that it started are killed. A
driver that lives kills them earlier (``metrics.FINISH_TIMEOUT_S``)."""


def follow(order: dict[str, Any], ended: "SimpleQueue[str]") -> None:
    """Pass the records of a run to a tracker until ``ended`` has the status of the run."""
    tracker = tracker_class(order["tracker"])()
    tracker.start(TrackedRun(**order["run"]), order["config"])
    with open(order["metrics"], "rb") as file:  # noqa: PTH123 - opened once
        file.seek(order["offset"])
        status = ""
        while not status:
            try:
                status = ended.get(timeout=POLL_INTERVAL_S)
            except Empty:
                status = ""
            for record in _records(file):
                if metrics := numbers(record):
                    tracker.log(record["update"], metrics)
    tracker.finish(status)


def _records(file: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield the records that were added to the file; the file stays before a line that is incomplete."""
    while True:
        start, line = file.tell(), file.readline()
        if not line.endswith(b"\n"):
            file.seek(start)
            return
        yield json.loads(line)


def _read_status(ended: "SimpleQueue[str]") -> None:
    """Wait for the end of the run, and bound the time that this process has from there on."""
    status = sys.stdin.readline().strip() or "failed"
    timer = threading.Timer(ORPHAN_TIMEOUT_S, os.killpg, (0, signal.SIGKILL))
    timer.daemon = True
    timer.start()
    ended.put(status)


def main() -> None:
    """Run the tracker of the order on stdin."""
    order = json.loads(sys.stdin.readline())
    ended: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read_status, args=(ended,), daemon=True).start()
    follow(order, ended)


if __name__ == "__main__":
    main()
