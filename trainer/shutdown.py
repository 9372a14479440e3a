"""End the process of a run in order on a signal, no matter what its main thread is doing.

In a ``turnwise`` command (``install``), a thread receives the signals, so a busy main thread does not delay them. The
first signal requests the run to stop. After ``GRACE_S``, or at a second signal, the process exits: it records the run's
row and kills every process that it started. Exiting is safe at any moment, because a run survives ``kill -9``.

The signals are blocked until Ray is up, because Ray's native code installs a SIGTERM handler that dumps a stack;
until then the thread receives them from the kernel. Afterwards the thread receives them unblocked, through
the interpreter's wakeup pipe. Children that an environment forks inherit none of it (``process.children``).

In a program that calls ``train`` or ``evaluate`` (``receiving``), the process is not ours to end. The main thread then
receives the signals for as long as the call lasts, and the caller's handlers are restored afterwards.

This module imports the standard library only: the console installs it before any import that takes time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from math import inf
from time import monotonic, sleep
from typing import NoReturn

from ..base.process.children import end_descendants, signals_isolated
from ..base.process.output import discard_output, stderr, stdout
from ..base.process.start import recorded_start
from ..errors import FAILED

LOG = logging.getLogger(__name__)

WARNINGS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals of a closed terminal, and of batch systems before a limit. A process that ignores or handles one keeps that:
`nohup`, and a program with a handler."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, *WARNINGS)
"""Signals that end a run, with a checkpoint if it has begun."""
GRACE_S = 6.0
"""Seconds between the first signal and the forced exit."""
RECORD_TIMEOUT_S = 1.0
"""Seconds to record the run's row, once before its processes are killed and once more afterwards."""
REPEAT_WINDOW_S = 0.3
"""The same signal this soon after the first one is a repetition: ``timeout`` signals the process and then its group.
A blocked signal is read up to ``POLL_INTERVAL_S`` late, so the window is longer than that."""
POLL_INTERVAL_S = 0.1
"""Seconds between two looks for a blocked signal."""


class Shutdown:
    """Handles the signals of this process, and ends the process. ``SHUTDOWN`` is the only instance."""

    def __init__(self) -> None:
        self.reason = ""
        """Name of the first signal; empty before it."""
        self.record: Callable[[str, str], None] | None = None
        """Record ``(status, error)`` as the end of a run that is still running in the store."""
        self.kill_processes: Callable[[], None] | None = None
        """Kill every process that this one started."""
        self.hint = ""
        """Text of the line on stderr after the signal's name."""
        self.failure = ""
        """The error of ``fail`` in a call of a program; empty without one."""
        self._code = 0
        self._first = 0.0
        """When the first signal arrived, on the monotonic clock."""
        self._signals: Sequence[signal.Signals] = ()
        """Those of ``SIGNALS`` that are received."""
        self._installed = False
        self._pipe = -1
        """The wakeup pipe's end for writing; -1 without ``install``."""
        self._receiving = False
        self._handled = False
        """Whether ``receiving`` turned a signal into a stop."""
        self._handler: Callable[[str], object] | None = None
        self._fail: Callable[[str], object] | None = None

    def install(self) -> None:
        """Receive the signals of this process in a thread, and block them. Call from the main thread, before any other
        thread starts.
        """
        if self._installed:
            return
        self._installed = True
        self._signals = _unclaimed()
        self.block()
        reader, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        self._set_handlers()
        threading.Thread(target=self._serve, args=(reader,), name="signals", daemon=True).start()

    @contextlib.contextmanager
    def receiving(self) -> Iterator[None]:
        """Inside the context, receive the signals of a program that did not ``install``.

        The first signal requests a stop, a further one raises ``KeyboardInterrupt``. Afterwards the former handlers are
        restored. A signal that no handler turned into a stop is then raised again, for these handlers.
        """
        if self._installed or self._receiving:
            yield
            return
        self.reason = self.failure = ""
        former = {}
        if threading.current_thread() is threading.main_thread():
            self._signals = _unclaimed()
            former = {number: signal.getsignal(number) for number in self._signals}
            self._receiving = True
            self._set_handlers()
        stopped = False
        try:
            with signals_isolated(), recorded_start():
                yield
            stopped = self._handled
        finally:
            self._receiving = self._handled = False
            self.record = None
            for number, handler in former.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
            if self.reason and not stopped and not self.failure:
                signal.raise_signal(signal.Signals[self.reason])

    def block(self) -> None:
        """Block the signals in this thread and the threads it starts. Without a receiver, do nothing."""
        if self._installed or self._receiving:
            signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)

    def unblock(self) -> None:
        """Replace the handlers that libraries installed, and undo ``block``. Call from the main thread."""
        if self._installed or self._receiving:
            self._set_handlers()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)

    @contextlib.contextmanager
    def handled_by(self, stop: Callable[[str], object], fail: Callable[[str], object]) -> Iterator[None]:
        """Inside the context, a signal calls ``stop`` with its name, and ``fail`` of a program calls ``fail``.

        Both may be called from another thread. With ``install``, ``stop`` is granted ``GRACE_S``, and outside of the
        context the first signal ends the process at once. Without, a signal before the context is handled in it.

        Raises:
            TurnwiseError: an exception left the context after ``fail``; the message is the text of ``fail``.
        """
        self._handler, self._fail = stop, fail
        try:
            if not self._installed:
                if self.failure:
                    fail(self.failure)
                elif self.reason:
                    self._request_stop()
            yield
        except BaseException as error:
            if self.failure:
                from ..errors import TurnwiseError

                raise TurnwiseError(self.failure) from error
            raise
        finally:
            self._handler = self._fail = None

    def fail(self, error: str) -> None:
        """Record the run as failed and end it: the process with one line on stderr, or the call of a program."""
        if not self._installed:
            self.failure = error
            self._record("failed", error)
            if self._fail is not None:
                with contextlib.suppress(RuntimeError):  # the event loop has just closed
                    self._fail(error)
            return
        if not self.reason:
            _print(f"turnwise: {error}")
        self._exit(self._code or FAILED, "stopped" if self.reason else "failed", error)

    def abandon(self, error: str) -> None:
        """End the run as ``fail`` does, but leave its row as it is: another process drives the run now."""
        self.record = None
        self.fail(error)

    def left_s(self) -> float:
        """Return the seconds until the forced exit after a signal; infinity if none is to come."""
        return self._first + GRACE_S - monotonic() if self._code else inf

    def exit_if_signaled(self) -> None:
        """End the process with 128 plus the signal's number; return if there was no signal."""
        if not self._code:
            return
        for stream in (stdout(), stderr()):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        self._exit(self._code, "stopped", self.reason)

    def _set_handlers(self) -> None:
        for number in self._signals:
            signal.signal(number, self._receive)
        if self._installed:
            signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)

    def _receive(self, number: int, frame: object) -> None:
        """Handle a signal in the main thread. With ``install``, the thread reads it from the wakeup pipe instead."""
        if self._installed:
            return
        if self.reason:
            if self._is_repetition(number, self._first):
                return
            raise KeyboardInterrupt
        self._first = monotonic()
        self.reason = signal.Signals(number).name
        _print(f"turnwise: {self.reason}: {self.hint or 'stopping'}")
        self._request_stop()

    def _is_repetition(self, number: int, first: float) -> bool:
        """Return whether a further signal repeats the one that arrived at ``first``, on the monotonic clock."""
        return signal.Signals(number).name == self.reason and monotonic() - first <= REPEAT_WINDOW_S

    def _request_stop(self) -> None:
        if self._handler is not None:
            self._handled = True
            with contextlib.suppress(RuntimeError):  # the event loop has just closed
                self._handler(self.reason)

    def _serve(self, pipe: int) -> None:
        number = self._next_signal(pipe, None)
        self._first = first = monotonic()
        handler = self._handler
        self.reason = signal.Signals(number).name
        self._code = 128 + number
        try:
            _print(f"turnwise: {self.reason}: {self.hint or 'stopping'}")
            if handler is not None:
                handler(self.reason)
                while (left := first + GRACE_S - monotonic()) > 0:
                    if (further := self._next_signal(pipe, left)) and not self._is_repetition(further, first):
                        break
        finally:  # an event loop that has just closed raises RuntimeError; nothing is left to wait for then
            self._exit(self._code, "stopped", self.reason)

    def _next_signal(self, pipe: int, timeout_s: float | None) -> int:
        """Return the next signal's number; 0 if none arrives within ``timeout_s`` (None: no limit).

        Nothing ends the wait but one of our signals. ``sigtimedwait`` does not wait: interrupted by a continue, it
        returns any number.
        """
        deadline = None if timeout_s is None else monotonic() + timeout_s
        while deadline is None or monotonic() < deadline:
            try:
                if (pending := signal.sigtimedwait(self._signals, 0)) is not None and pending.si_signo in self._signals:
                    return pending.si_signo
                ready, _, _ = select.select([pipe], [], [], POLL_INTERVAL_S)
                if ready and (number := os.read(pipe, 1)[0]) in self._signals:
                    return number
            except Exception:
                LOG.exception("a signal could not be read; the next one is waited for")
                sleep(POLL_INTERVAL_S)
        return 0

    def _exit(self, code: int, status: str, error: str) -> NoReturn:
        """Record, kill, exit. Output is discarded, since every process that loses its peer now would print errors."""
        discard_output()
        recording = threading.Thread(target=self._record, args=(status, error), daemon=True)
        recording.start()
        recording.join(RECORD_TIMEOUT_S)
        try:
            (self.kill_processes or end_descendants)()
            recording.join(RECORD_TIMEOUT_S)
        finally:
            os._exit(code)

    def _record(self, status: str, error: str) -> None:
        if self.record is not None:
            try:
                self.record(status, error)
            except Exception:
                # The row keeps its status. The log is the one place left to report to: stderr is discarded.
                LOG.warning("the end of the run was not recorded", exc_info=True, extra={"status": status})


SHUTDOWN = Shutdown()


def _unclaimed() -> tuple[signal.Signals, ...]:
    """Return ``SIGNALS`` without those ``WARNINGS`` that this process ignores or handles already."""
    return tuple(one for one in SIGNALS if one not in WARNINGS or signal.getsignal(one) is signal.SIG_DFL)


def _print(line: str) -> None:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # RuntimeError: a signal interrupted another write
        stderr().write(f"{line}\n")
        stderr().flush()
