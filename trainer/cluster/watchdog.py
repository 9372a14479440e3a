"""Ends the processes that a driver started, also where the driver was killed.

Every process below the driver inherits ``MARK`` in its environment, whatever its parent, group and session become.
The watchdog is a small process in its own session. It holds the other end of a pipe: when the pipe closes, however
the driver ended, the watchdog gives the marked processes a moment's grace and kills those that are left.
"""

import os
import subprocess
import sys
import time

import psutil

MARK = "TURNWISE_DRIVER"
GRACE_S = 2.0
"""Seconds Ray gets to end its processes itself."""
KILL_S = 2.0
"""Seconds to find and kill all, those included that were just being started."""
POLL_S = 0.1


def watch() -> "subprocess.Popen[str]":
    """Mark what this process starts from now on, and start a watchdog that acts when this process ends or closes its
    ``stdin``.
    """
    unmarked = {name: value for name, value in os.environ.items() if name != MARK}
    driver = psutil.Process()
    os.environ[MARK] = f"{driver.pid}-{driver.create_time()}"
    return subprocess.Popen(
        [sys.executable, "-m", __name__, os.environ[MARK]],
        stdin=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=unmarked,
    )


def marked(mark: str) -> list[psutil.Process]:
    """The live processes that carry ``mark``."""
    found = []
    for one in psutil.process_iter():
        try:
            if one.environ().get(MARK) == mark and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except (psutil.Error, OSError):
            continue
    return found


def end_marked(mark: str) -> None:
    """Kill the processes that carry ``mark``, until none is left or ``KILL_S`` seconds have passed."""
    deadline = time.monotonic() + KILL_S
    while (alive := marked(mark)) and time.monotonic() < deadline:
        for one in alive:
            try:
                one.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(alive, timeout=POLL_S)


def main() -> None:
    """Wait until the pipe closes, then end the processes that carry the mark given as argument."""
    mark = sys.argv[1]
    sys.stdin.read()
    deadline = time.monotonic() + GRACE_S
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    end_marked(mark)


if __name__ == "__main__":
    main()
