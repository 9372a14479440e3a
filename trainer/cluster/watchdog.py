"""Ends what Ray leaves behind when its driver is killed.

Ray's own processes die with the driver, but for the agents beside its raylet, which stay. This runs as a small
process of its own, holding the other end of a pipe: it is told the ids and start times of the processes to end, and
when the pipe closes, however the driver ended, it ends those that are still the same processes after a moment's
grace.
"""

import subprocess
import sys
import time

import psutil

GRACE = 5.0
"""Seconds Ray gets to end them itself."""


def watch() -> "subprocess.Popen[str]":
    """Start a watchdog over the processes below this one; it acts when this process ends or closes its ``stdin``."""
    below = psutil.Process().children(recursive=True)
    dog = subprocess.Popen(
        [sys.executable, "-m", __name__], stdin=subprocess.PIPE, text=True, start_new_session=True, close_fds=True
    )
    assert dog.stdin is not None  # noqa: S101
    for one in below:
        try:
            dog.stdin.write(f"{one.pid} {one.create_time()}\n")
        except psutil.NoSuchProcess:
            continue
    dog.stdin.flush()
    return dog


def main() -> None:
    """Read ``pid start`` lines until the pipe closes, then end those processes."""
    known = [line.split() for line in sys.stdin]
    deadline = time.monotonic() + GRACE
    alive = [one for pid, start in known if (one := _same(int(pid), float(start))) is not None]
    _, alive = psutil.wait_procs(alive, timeout=max(0.0, deadline - time.monotonic()))
    for one in alive:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            continue


def _same(pid: int, start: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        return process if process.create_time() == start else None
    except psutil.NoSuchProcess:
        return None


if __name__ == "__main__":
    main()
