"""Ray's own processes on this machine: started outside our process group, supervised, killed at the end.

``ray.init`` runs in a thread that lives as long as Ray does:

* Ray's Python code installs its SIGTERM handler only from the main thread; its native code does so from any thread.
* Ray's daemons die with the thread that started them.
* The main thread never blocks in Ray's native code while Ray starts or shuts down.
"""

import atexit
import os
import signal
import threading
from collections.abc import Mapping
from typing import Any

import psutil

from ..shutdown import SHUTDOWN, SIGNALS
from .watchdog import MARK_VARIABLE, kill_owned, start_watchdog

CHECK_INTERVAL_S = 0.5
"""Seconds between two checks that the daemons are alive."""
SHUTDOWN_TIMEOUT_S = 10.0
"""Seconds Ray may take to shut down before its processes are killed."""
REQUIRED_DAEMONS = ("raylet", "gcs_server")
"""Processes without which every call to an actor hangs."""

_starting: list[int] = []
"""While ``ray.init`` starts the daemons: the file descriptor of the watchdog's ``stdin``."""


def _leave_session() -> None:
    """Leave our session, report the new one, and unblock our signals, in a child that ``ray.init`` just forked."""
    if _starting:
        os.setsid()
        os.write(_starting[0], b"%d\n" % os.getpid())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


os.register_at_fork(after_in_child=_leave_session)


class RayDaemons:
    """A Ray instance that was started here, or a connection to one that runs elsewhere."""

    def __init__(self, settings: Mapping[str, Any], *, local: bool) -> None:
        """Start Ray, or connect to it.

        Raises:
            Exception: any error of ``ray.init``.
        """
        self._settings = settings
        self._local = local
        self._up, self._stopping = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._watchdog = start_watchdog() if local else None
        self._mark = os.environ[MARK_VARIABLE] if local else ""
        self._sessions: set[int] = set()
        """Sessions of the daemons, once Ray is up. A daemon that has died is no longer a child of this process."""
        if local:
            SHUTDOWN.kill_processes = self._kill_owned
        self._thread = threading.Thread(target=self._serve, name="ray", daemon=True)
        SHUTDOWN.block()
        self._thread.start()
        self._up.wait()
        SHUTDOWN.unblock()
        if self._error is not None:
            self._kill()
            raise self._error

    def stop(self) -> None:
        """Shut Ray down within ``SHUTDOWN_TIMEOUT_S``, then kill its remaining processes."""
        self._stopping.set()
        self._thread.join(SHUTDOWN_TIMEOUT_S)
        if self._thread.is_alive():
            import ray

            atexit.unregister(ray.shutdown)
        self._kill()

    def _serve(self) -> None:
        import ray

        try:
            if self._watchdog is not None and self._watchdog.stdin is not None:
                _starting.append(self._watchdog.stdin.fileno())
            ray.init(**self._settings)
        except BaseException as error:  # noqa: BLE001 - raised by `__init__`
            self._error = error
            return
        finally:
            _starting.clear()
            self._up.set()
        started = psutil.Process().children() if self._local else []
        self._sessions |= {one.pid for one in started}
        daemons = [one for one in started if one.name() in REQUIRED_DAEMONS]
        while not self._stopping.wait(CHECK_INTERVAL_S):
            if dead := next((one.name() for one in daemons if not _is_alive(one)), ""):
                SHUTDOWN.fail(f"Ray's {dead} died, which ends the run; run the same command to resume it")
                break
        self._stopping.wait()
        ray.shutdown()

    def _kill_owned(self) -> None:
        kill_owned(self._mark, self._sessions | {one.pid for one in psutil.Process().children()})

    def _kill(self) -> None:
        if self._watchdog is None:
            return
        self._kill_owned()
        self._watchdog.communicate(timeout=60)
        os.environ.pop(MARK_VARIABLE, None)
        SHUTDOWN.kill_processes = None


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
