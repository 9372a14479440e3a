"""Ends the process of a run in order on SIGTERM or SIGINT, whatever its main thread is doing.

A thread takes the signals, so no busy main thread delays them. The first signal asks the run to stop; ``ORDERLY_S``
later, or at a second signal, the process leaves: it records the run's row, kills every process it started and exits.
That is safe at any moment, because a run survives ``kill -9``.

* While the signals are masked, the thread takes them from the kernel. They are masked until Ray is up: Ray's native
  code installs a SIGTERM handler that dumps a stack.
* Then they are unmasked, since every process that an environment starts inherits the mask, and reach the thread by the
  interpreter's pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from time import monotonic
from typing import NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ORDERLY_S = 7.0
"""Seconds a run gets to stop by itself after the first signal."""
RECORD_S = 1.0
"""Seconds to record the run's row: once before its processes are killed and, if that was too short, once after."""
SAME_ORDER_S = 0.5
"""A signal that follows the first this soon repeats it; ``timeout`` signals the process and then its group."""
POLL_S = 0.1
"""Seconds between two looks at the pipe."""
FAILED = 2
"""Exit status of an error of ours."""


class Ending:
    """How this process ends; one per process: ``ENDING``."""

    def __init__(self) -> None:
        self.reason = ""
        """Name of the first signal; empty before it."""
        self.record: Callable[[str, str], None] | None = None
        """Records ``(status, error)`` as the end of a run that the store still shows as running."""
        self.end_processes: Callable[[], None] | None = None
        """Kills every process that this one started."""
        self.hint = ""
        """What the line on stderr adds to the signal."""
        self._code = 0
        self._installed = False
        self._listener: Callable[[str], object] | None = None

    def install(self) -> None:
        """Take over the signals of this process, and mask them. Needs the main thread, before all others start."""
        if self._installed:
            return
        self._installed = True
        self.mask()
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        threading.Thread(target=self._serve, args=(reader,), name="signals", daemon=True).start()

    def mask(self) -> None:
        """Keep the signals from the handlers that this thread, and those it starts, would run. Nothing without
        ``install``.
        """
        if self._installed:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)

    def unmask(self) -> None:
        """Replace the handlers that libraries installed, and undo ``mask``. Needs the main thread."""
        if self._installed:
            for number in SIGNALS:
                signal.signal(number, lambda number, frame: None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    @contextlib.contextmanager
    def listening(self, listener: Callable[[str], object]) -> Iterator[None]:
        """Call ``listener`` from another thread with the first signal's name; outside, the first signal ends all."""
        self._listener = listener
        try:
            yield
        finally:
            self._listener = None

    def fail(self, error: str) -> None:
        """End the process with one line on stderr and the run's row as failed; without ``install``, interrupt it."""
        if not self._installed:
            signal.raise_signal(signal.SIGINT)
            return
        if not self.reason:
            _print(f"turnwise: {error}")
        self._leave(self._code or FAILED, "stopped" if self.reason else "failed", error)

    def leave_if_signaled(self) -> None:
        """End the process with 128 plus the signal's number if there was one; else return."""
        if not self._code:
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        self._leave(self._code, "stopped", self.reason)

    def _serve(self, pipe: int) -> None:
        number = _next(pipe, None)
        first = monotonic()
        listener = self._listener
        self.reason = signal.Signals(number).name
        self._code = 128 + number
        _print(f"turnwise: {self.reason}: {self.hint or 'stopping'}")
        if listener is not None:
            # A loop that has just closed raises here: there is nothing left to wait for.
            with contextlib.suppress(RuntimeError):
                listener(self.reason)
                while (left := first + ORDERLY_S - monotonic()) > 0:
                    if _next(pipe, left) and monotonic() - first > SAME_ORDER_S:
                        break
        self._leave(self._code, "stopped", self.reason)

    def _leave(self, code: int, status: str, error: str) -> NoReturn:
        """Record, kill, exit; nothing else is printed, whatever loses its peer now."""
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        recording = threading.Thread(target=self._record, args=(status, error), daemon=True)
        recording.start()
        recording.join(RECORD_S)
        try:
            if self.end_processes is not None:
                self.end_processes()
            recording.join(RECORD_S)
        finally:
            os._exit(code)

    def _record(self, status: str, error: str) -> None:
        if self.record is not None:
            # The row then keeps its old status, and nobody is left to read why.
            with contextlib.suppress(Exception):
                self.record(status, error)


ENDING = Ending()


def _next(pipe: int, seconds: float | None) -> int:
    """The next signal's number; 0 if none comes within ``seconds``."""
    until = None if seconds is None else monotonic() + seconds
    while until is None or monotonic() < until:
        if (masked := signal.sigtimedwait(SIGNALS, POLL_S)) is not None:
            return masked.si_signo
        ready, _, _ = select.select([pipe], [], [], 0)
        if ready and (number := os.read(pipe, 1)[0]) in SIGNALS:
            return number
    return 0


def _print(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
