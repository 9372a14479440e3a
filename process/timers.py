"""Timers and limits that code of an environment sets: their signals do not end the process.

The default action of SIGALRM and the like ends the process. Environments run in threads, where Python installs no
handler, so each timer of an environment would end a run.
"""

import atexit
import contextlib
import logging
import resource
import signal
import threading
from collections import Counter
from collections.abc import Iterator

LOG = logging.getLogger(__name__)

TIMERS = {
    signal.SIGALRM: signal.ITIMER_REAL,
    signal.SIGVTALRM: signal.ITIMER_VIRTUAL,
    signal.SIGPROF: signal.ITIMER_PROF,
}
SIGNALS = (*TIMERS, signal.SIGXCPU, signal.SIGIO)
"""Signals that the system sends to a process for a timer, a limit or a file that its own code set up."""
expired: Counter[int] = Counter()
"""How often each signal has arrived; counted in the main thread."""


def outlive_timers() -> None:
    """Until this process ends, handle the signals of timers whose default action would end it."""
    atexit.register(_cancel, _handle())  # the interpreter removes the handlers before it ends


@contextlib.contextmanager
def timers_outlived() -> Iterator[None]:
    """Inside the context, handle the signals of timers; outside of the main thread, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled = _handle()
    try:
        yield
    finally:
        _cancel(handled)
        for number in handled:
            if signal.getsignal(number) is _note:
                signal.signal(number, signal.SIG_DFL)


def _handle() -> list[signal.Signals]:
    """Handle the signals that have their default action, and return them.

    A timer or limit that was set before, as by the program that started this one, keeps its effect.
    """
    free = [one for one in SIGNALS if signal.getsignal(one) is signal.SIG_DFL and not _is_set(one)]
    for number in free:
        if threading.current_thread() is threading.main_thread():
            signal.signal(number, _note)
        else:
            # Python installs handlers in the main thread alone, which Ray does not give to an actor. Any function of
            # the C library that takes a number and has no effect is a handler.
            import ctypes

            library = ctypes.CDLL(None)
            library.signal(int(number), library.abs)
    return free


def _is_set(number: signal.Signals) -> bool:
    """Return whether the timer or limit that sends a signal is set."""
    if number == signal.SIGXCPU:
        return resource.getrlimit(resource.RLIMIT_CPU)[0] != resource.RLIM_INFINITY
    return number in TIMERS and bool(signal.getitimer(TIMERS[number])[0])


def _cancel(numbers: list[signal.Signals]) -> None:
    for number in TIMERS.keys() & set(numbers):
        signal.setitimer(TIMERS[number], 0)


def _note(number: int, frame: object) -> None:
    expired[number] += 1
    if expired[number] == 1:
        with contextlib.suppress(RuntimeError):  # the signal interrupted a write to the same stream
            LOG.warning(
                "a timer of an environment expired without effect: `envs check` finds the environment; measure time in "
                "it, or let it run the code in a process",
                extra={"signal": signal.Signals(number).name},
            )
