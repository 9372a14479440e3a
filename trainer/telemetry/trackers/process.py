"""The process of a tracker, as the driver of the run sees it: started, ended, and never waited for during the run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

from ....logs import FOLDER
from ....masking import scrubbed
from .base import TrackedRun

FOLLOW = f"{__package__}.follow"
REASON_MAX_CHARS = 300


class TrackerProcess:
    """One tracker of a run, in its own process and apart from the signals of the terminal."""

    def __init__(self, name: str, run: TrackedRun, config: Mapping[str, Any], metrics: Path, offset: int) -> None:
        """Start the tracker; it reads ``metrics`` from ``offset`` on.

        Raises:
            OSError: its log cannot be opened, or its process does not start.
        """
        self.name = name
        self._reported = False
        self._log = Path(run.folder) / FOLDER / f"tracker-{name.replace(':', '-')}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        order = {"tracker": name, "run": asdict(run), "config": _scrubbed(config)}
        order |= {"metrics": str(metrics.resolve()), "offset": offset}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", FOLLOW],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._send(json.dumps(order))

    def failure(self) -> str:
        """Return why the tracker ended before the run; empty if it has not, and at every later call."""
        if self._reported or self._process.poll() is None:
            return ""
        self._reported = True
        return f"tracker `{self.name}` failed, and the run goes on without it: {self._reason()}"

    def finish(self, status: str) -> None:
        """Send the status of the run; the tracker then ends by itself."""
        self._send(status)

    def close(self, began: float, timeout_s: float) -> str:
        """Wait until the tracker has ended, and return why it failed; empty if it did not. Blocks.

        It is killed ``timeout_s`` after ``began``, a time of the monotonic clock.
        """
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            code = self._process.wait(max(began + timeout_s - monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            return (
                f"tracker `{self.name}` did not end within {timeout_s:.2g} s of the run and was killed, so the "
                f"last updates may be missing there; `{self._log}` is its log"
            )
        if code == 0 or self._reported:
            return ""
        self._reported = True
        return f"tracker `{self.name}` failed: {self._reason()}"

    @property
    def _stdin(self) -> Any:
        return self._process.stdin

    def _send(self, line: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a process that has ended is reported by ``failure``
            self._stdin.write(f"{line}\n".encode())
            self._stdin.flush()

    def _reason(self) -> str:
        try:
            lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        except OSError:
            lines = []
        last = scrubbed(lines[-1].strip())[:REASON_MAX_CHARS] if lines else f"exit {self._process.returncode}"
        return f"{last} (`{self._log}`)"


def _scrubbed(value: Any) -> Any:
    """Return JSON values with every secret in their texts replaced."""
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {key: _scrubbed(one) for key, one in value.items()}
    return [_scrubbed(one) for one in value] if isinstance(value, list) else value
