"""Kill the processes that a driver started, even if the driver itself was killed.

Two signs show that a process belongs to the driver:

* Every process below the driver inherits ``MARK_VARIABLE`` in its environment, and keeps it when its parent, process
  group or session changes.
* Ray's agents overwrite their environment with their title. They stay in the session of the daemon that started them.

The watchdog is a small process in a separate session that holds the other end of a pipe. Each daemon writes its
session to the pipe when it starts. The pipe closes when the driver ends, for any reason; then the watchdog waits
``GRACE_S`` and kills the processes that are left.
"""

import os
import subprocess
import sys
import time
from collections.abc import Set as AbstractSet

import psutil

MARK_VARIABLE = "TURNWISE_DRIVER"
GRACE_S = 2.0
"""Seconds Ray gets to end its processes itself."""
KILL_TIMEOUT_S = 2.0
"""Seconds to find and kill all marked processes, including those that are just being started."""
POLL_INTERVAL_S = 0.1


def start_watchdog() -> "subprocess.Popen[str]":
    """Mark every process that this one starts from now on, and return a watchdog.

    The watchdog reads session ids from its ``stdin``, one per line. It acts when this process ends or closes that pipe.
    """
    unmarked = {name: value for name, value in os.environ.items() if name != MARK_VARIABLE}
    driver = psutil.Process()
    os.environ[MARK_VARIABLE] = f"{driver.pid}-{driver.create_time()}"
    return subprocess.Popen(
        [sys.executable, "-m", __name__, os.environ[MARK_VARIABLE]],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=unmarked,
    )


def owned_processes(mark: str, sessions: AbstractSet[int] = frozenset()) -> list[psutil.Process]:
    """Return the live processes that carry ``mark``, and those of Ray in one of ``sessions``."""
    return [one for one in psutil.process_iter() if _is_owned(one, mark, sessions)]


def _is_owned(process: psutil.Process, mark: str, sessions: AbstractSet[int]) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        # A session id may be reused once its processes have ended, so Ray's title must be there too.
        in_session = os.getsid(process.pid) in sessions and process.name().startswith("ray::")
        return in_session or bool(process.environ().get(MARK_VARIABLE) == mark)
    except (psutil.Error, OSError):
        return False


def kill_owned(mark: str, sessions: AbstractSet[int] = frozenset()) -> None:
    """Kill the processes that ``owned_processes`` returns until none is left, for at most ``KILL_TIMEOUT_S``."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (alive := owned_processes(mark, sessions)) and time.monotonic() < deadline:
        for one in alive:
            try:
                one.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(alive, timeout=POLL_INTERVAL_S)


def main() -> None:
    """Read session ids until the pipe closes, then kill the processes of those sessions and of the mark in ``argv``."""
    mark = sys.argv[1]
    sessions = {int(line) for line in sys.stdin}
    deadline = time.monotonic() + GRACE_S
    while owned_processes(mark, sessions) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    kill_owned(mark, sessions)


if __name__ == "__main__":
    main()
