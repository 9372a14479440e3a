"""Start Ray on this machine or connect to a cluster, and stop it.

Ray's own processes on this machine are started outside our process group, supervised, and killed at the end.

``ray.init`` runs in a thread that lives as long as Ray does:

* Ray's Python code installs its SIGTERM handler only from the main thread; its native code does so from any thread.
* Ray's daemons die with the thread that started them.
* The main thread never blocks in Ray's native code while Ray starts or shuts down.
"""

import atexit
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Mapping
from time import monotonic
from typing import Any

import psutil

from ...errors import TurnwiseError
from ..shutdown import SHUTDOWN, SIGNALS
from .ray_patches import log_errors_of_actors, same_search_path, shut_ray_down, start_fewer_processes
from .watchdog import END, MARK_VARIABLE, kill_owned, start_watchdog

LOG = logging.getLogger(__name__)

CHECK_INTERVAL_S = 0.5
"""Seconds between two checks that the daemons are alive."""
SHUTDOWN_TIMEOUT_S = 10.0
"""Seconds Ray may take to shut down before its processes are killed."""
REQUIRED_DAEMONS = ("raylet", "gcs_server")
"""Processes without which every call to an actor hangs."""
PROBE_INTERVAL_S = 3.0
"""Seconds between two probes of the daemons of a cluster."""
PROBE_TIMEOUT_S = 3.0
"""Seconds that one connection to a daemon of a cluster may take."""
UNREACHABLE_S = 15.0
"""A daemon of a cluster that accepts no connection for this long is dead."""

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
            atexit.register(self._note, END)
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
        for daemon in daemons:
            self._note(f"{daemon.pid} {daemon.name()}")
        probe = DaemonProbe({} if self._local else _addresses_of_daemons())
        while not self._stopping.wait(CHECK_INTERVAL_S if self._local else PROBE_INTERVAL_S):
            if dead := next((daemon.name() for daemon in daemons if not _is_alive(daemon)), "") or probe.dead():
                self._note(END)  # `fail` prints the reason
                SHUTDOWN.fail(f"Ray's {dead} died, which ends the run; run the same command again")
                break
        self._stopping.wait()
        shut_ray_down()

    def _note(self, line: str) -> None:
        """Write a line to the watchdog, if there is one that has not ended."""
        if self._watchdog is not None and self._watchdog.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # ValueError: the pipe is closed
                self._watchdog.stdin.write(f"{line}\n")
                self._watchdog.stdin.flush()

    def _kill_owned(self) -> None:
        self._note(END)
        kill_owned(self._mark, self._sessions | {child.pid for child in psutil.Process().children()})

    def _kill(self) -> None:
        if self._watchdog is None:
            return
        self._kill_owned()
        self._watchdog.communicate(timeout=60)
        atexit.unregister(self._note)
        os.environ.pop(MARK_VARIABLE, None)
        SHUTDOWN.kill_processes = None


class DaemonProbe:
    """Detects the death of daemons that other processes started, by connections to them."""

    def __init__(self, addresses: Mapping[str, tuple[str, int]]) -> None:
        """``addresses`` holds the host and port of each daemon."""
        self._addresses = addresses
        self._reached_at = dict.fromkeys(addresses, monotonic())

    def dead(self) -> str:
        """Connect to each daemon; return the name of one not reached for ``UNREACHABLE_S``, else an empty string."""
        for name, address in self._addresses.items():
            try:
                socket.create_connection(address, PROBE_TIMEOUT_S).close()
            except OSError:
                if monotonic() - self._reached_at[name] > UNREACHABLE_S:
                    return name
            else:
                self._reached_at[name] = monotonic()
        return ""


def _addresses_of_daemons() -> dict[str, tuple[str, int]]:
    """Return the addresses of the daemons that this process uses of a cluster; empty if Ray does not report them."""
    import ray

    try:
        context = ray.get_runtime_context()
        host, _, port = str(context.gcs_address).rpartition(":")
        node = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
        raylet = str(node["NodeManagerAddress"]), int(node["NodeManagerPort"])
        return {"gcs_server": (host.strip("[]"), int(port)), "raylet": raylet}
    except Exception:
        LOG.warning("the daemons of the Ray cluster are not watched", exc_info=True)
        return {}


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


RAY_ENVIRONMENT: Mapping[str, str] = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Defaults of environment variables for Ray and all its actors."""
LOCAL_RAY_ENVIRONMENT: Mapping[str, str] = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""On any system, this variable restricts a Ray that is started here, and all its actors, to the loopback interface."""
OBJECT_STORE_BYTES = 100 << 20

_started: list[RayDaemons] = []


def start_ray(address: str | None = None) -> None:
    """Connect to the Ray cluster at ``address``, or start Ray on this machine, on the loopback interface.

    Raises:
        TurnwiseError: Ray could not be reached or started.
    """
    for name, value in {**RAY_ENVIRONMENT, **({} if address else LOCAL_RAY_ENVIRONMENT)}.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    log_errors_of_actors()
    if not address:
        start_fewer_processes()
    settings: dict[str, Any] = (
        {"address": address}
        if address
        else {
            # Without "local", Ray joins any cluster that it finds on this machine.
            "address": "local",
            "num_cpus": os.cpu_count(),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
    )
    settings |= {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    settings["job_config"] = same_search_path()
    try:
        _started.append(RayDaemons(settings, local=not address))
    except Exception as error:
        raise TurnwiseError(f"Ray could not be {'reached at ' + address if address else 'started'}: {error}") from error


def stop_ray() -> None:
    """Stop what ``start_ray`` started."""
    while _started:
        _started.pop().stop()
