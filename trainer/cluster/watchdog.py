"""Kill the processes that a driver started, even if the driver itself was killed.

Every process below the driver inherits ``MARK_VARIABLE`` in its environment, and keeps it when its parent, process
group or session changes. The watchdog is a small process in a separate session that holds the other end of a pipe. The
pipe closes when the driver ends, for any reason; then the watchdog waits ``GRACE_S`` and kills the marked processes
that are left.
"""

import os
import subprocess
import sys
import time

import psutil

MARK_VARIABLE = "TURNWISE_DRIVER"
GRACE_S = 2.0
"""Seconds Ray gets to end its processes itself."""
KILL_TIMEOUT_S = 2.0
"""Seconds to find and kill all marked processes, including those that are just being started."""
POLL_INTERVAL_S = 0.1


def start_watchdog() -> "subprocess.Popen[str]":
    """Mark every process that this one starts from now on, and return a watchdog.

    The watchdog acts when this process ends or closes the watchdog's ``stdin``.
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


def marked_processes(mark: str) -> list[psutil.Process]:
    """Return the live processes that carry ``mark``."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get(MARK_VARIABLE) == mark and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (psutil.Error, OSError):
            continue
    return found


def kill_marked(mark: str) -> None:
    """Kill the processes that carry ``mark`` until none is left, for at most ``KILL_TIMEOUT_S``."""
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (alive := marked_processes(mark)) and time.monotonic() < deadline:
        for one in alive:
            try:
                one.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(alive, timeout=POLL_INTERVAL_S)


def main() -> None:
    """Wait until the pipe closes, then kill the processes that carry the mark given as argument."""
    mark = sys.argv[1]
    sys.stdin.read()
    deadline = time.monotonic() + GRACE_S
    while marked_processes(mark) and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
    kill_marked(mark)


if __name__ == "__main__":
    main()
