"""Ray's own processes on this machine: started out of reach of a signal to our process group, watched, ended.

``ray.init`` runs in a thread, which lives as long as Ray does:

* Ray's Python code installs its SIGTERM handler only from the main thread; its native code does so from any.
* Its daemons die with the thread that started them.
* The main thread never waits in Ray's native code for a start or an end.
"""

import atexit
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

import psutil

from ..stopping import ENDING, SIGNALS
from .watchdog import MARK, end_marked, watch

CHECK_INTERVAL_S = 0.5
"""Seconds between two checks that the daemons live."""
SHUTDOWN_S = 10.0
"""Seconds Ray may take to shut down before its processes are killed."""
VITAL = ("raylet", "gcs_server")
"""Without them every call of an actor hangs."""

_starting = threading.Event()


def _leave_session() -> None:
    """In a process just forked: leave our session and our signal mask, if Ray forked it (by ``fork``, with a hook)."""
    if _starting.is_set():
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


os.register_at_fork(after_in_child=_leave_session)


class Daemons:
    """A Ray that was started here, or a connection to one that runs elsewhere."""

    def __init__(self, settings: Mapping[str, Any], *, local: bool) -> None:
        """Start or connect.

        Raises:
            Exception: as ``ray.init``.
        """
        self._settings = settings
        self._local = local
        self._up, self._stopping = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._dog = watch() if local else None
        self._mark = os.environ[MARK] if local else ""
        if local:
            ENDING.end_processes = lambda: end_marked(self._mark)
        self._thread = threading.Thread(target=self._serve, name="ray", daemon=True)
        ENDING.mask()
        self._thread.start()
        self._up.wait()
        ENDING.unmask()
        if self._error is not None:
            self._end()
            raise self._error

    def stop(self) -> None:
        """Shut Ray down within ``SHUTDOWN_S`` seconds, then kill what is left of it."""
        self._stopping.set()
        self._thread.join(SHUTDOWN_S)
        if self._thread.is_alive():
            import ray

            atexit.unregister(ray.shutdown)
        self._end()

    def _serve(self) -> None:
        import ray

        try:
            if self._local:
                _starting.set()
            ray.init(**self._settings)
        except BaseException as error:
            self._error = error
            return
        finally:
            _starting.clear()
            self._up.set()
        vital = [one for one in psutil.Process().children() if one.name() in VITAL] if self._local else []
        while not self._stopping.wait(CHECK_INTERVAL_S):
            if dead := next((one.name() for one in vital if not _lives(one)), ""):
                ENDING.fail(f"Ray's {dead} died, which ends the run; run the same command to resume it")
                break
        self._stopping.wait()
        ray.shutdown()

    def _end(self) -> None:
        if self._dog is None:
            return
        end_marked(self._mark)
        self._dog.communicate(timeout=60)
        os.environ.pop(MARK, None)
        ENDING.end_processes = None


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
