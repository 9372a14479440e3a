"""Leaving a box as it was when it started: nothing of the payload in any place that outlives its processes.

Whoever calls has taken on the payload's rights: all of it is the payload's own, and nothing else is touched.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
from typing import Any

from .files import WORKSPACE

PLACES = (WORKSPACE, "/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - these are the sandbox's own
TABLES = (("shm", "shmctl", (0, None)), ("msg", "msgctl", (0, None)), ("sem", "semctl", (0, 0)))
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_CLEAR = 7
KEYRINGS = (-4, -5)
"""The user's, and the user's sessions'."""


def modes() -> dict[str, int]:
    """The places that can be written to, with their rights as they are now."""
    return {place: stat.S_IMODE(os.stat(place).st_mode) for place in PLACES if os.path.isdir(place)}


def clear(places: dict[str, int]) -> None:
    """Empty the places and give them back their rights, and clear the kernel's tables of the user. Raises OSError."""
    clear_ipc()
    clear_keys()
    for place, mode in places.items():
        open_up(place)
        empty(place)
        with contextlib.suppress(OSError):
            for name in os.listxattr(place):
                os.removexattr(place, name)
        # Where they are not the payload's, it could not change them either.
        with contextlib.suppress(PermissionError):
            os.chmod(place, mode)
            os.utime(place)


def libc() -> Any:
    """The C library; only what is needed for what Python has no function of."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def clear_ipc() -> None:
    """Remove what is in System V's tables. Raises OSError."""
    for table, control, command in TABLES:
        with open("/proc/sysvipc/" + table) as file:
            ids = [int(line.split()[1]) for line in file.readlines()[1:]]
        for one in ids:
            if getattr(libc(), control)(one, *command):
                raise OSError(f"cannot remove {table} {one}")


def clear_keys() -> None:
    """Empty the keyrings; where the engine forbids them, there are none."""
    number = KEYCTL.get(platform.machine())
    for ring in KEYRINGS if number else ():
        libc().syscall(number, KEYCTL_CLEAR, ring)


def open_up(folder: str) -> None:
    """Give the payload every right to a folder of its own again."""
    with contextlib.suppress(PermissionError):
        os.chmod(folder, 0o700)


def empty(folder: str) -> None:
    """Remove everything below a folder, whatever rights were taken from it. Folders in folders are first moved up, so
    that a tree may be deeper than any path can be long. Raises OSError.
    """
    prefix, number = f"{folder}/{os.urandom(8).hex()}", 0
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            open_up(entry.path)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    open_up(inner.path)
                    os.rename(inner.path, f"{prefix}{number}")
                    number += 1
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)
