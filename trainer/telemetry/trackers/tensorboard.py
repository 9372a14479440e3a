"""TensorBoard: event files in `tensorboard/` of the run's folder; `tensorboard --logdir runs` shows all runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Any

from .base import TrackedRun

PACKAGE = "tensorboard"


class TensorBoard:
    """Writes one scalar per number."""

    def start(self, run: TrackedRun, config: Mapping[str, Any]) -> None:
        """Open a new event file; from a resumed update on, TensorBoard hides the steps of earlier files."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        folder = Path(run.folder) / "tensorboard"
        self._file = EventFileWriter(str(folder))
        if run.resumed_from is not None:
            restart = SessionLog(status=SessionLog.START)
            self._file.add_event(Event(wall_time=time(), step=run.resumed_from, session_log=restart))

    def log(self, update: int, metrics: Mapping[str, float]) -> None:
        """Add one event with all numbers of the record."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._file.add_event(Event(wall_time=time(), step=update, summary=Summary(value=values)))
        self._file.flush()

    def finish(self, status: str) -> None:
        """Close the file."""
        self._file.close()
