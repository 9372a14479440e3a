"""Trackers that fail, hang, or record what they receive in a file."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turnwise.trainer.telemetry.trackers.base import TrackedRun


class Recording:
    """Appends one JSON line per call to `received.jsonl` of the run's folder."""

    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        self._path = Path(run.folder) / "received.jsonl"
        self._write("start", run.name, config)

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        self._write("log", update, metrics)

    def finish(self, status: str) -> None:
        self._write("finish", status)

    def _write(self, *values: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(values) + "\n")


class Failing(Recording):
    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        raise ConnectionError("no route to the tracker")


class Hanging(Recording):
    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        time.sleep(600)


class HangingToo(Hanging):
    """A second one of a run."""


class HangingAlso(Hanging):
    """A third one of a run."""


class Exiting(Recording):
    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        raise SystemExit(1)
