"""Processes of the sandboxes of this machine, found in /proc."""

import contextlib
from pathlib import Path


def running(mark: str) -> list[int]:
    """Return the processes of this machine with ``mark`` among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark.encode() in arguments:
            found.append(int(path.parent.name))
    return found


def processes_of(sandbox_id: str) -> list[int]:
    """Return the processes of a sandbox of this machine."""
    found = []
    for pid in running("/run/turnwise/s"):
        with contextlib.suppress(OSError):  # it ended, as those of another test do
            if sandbox_id in Path(f"/proc/{pid}/mountinfo").read_text():
                found.append(pid)
    return found
