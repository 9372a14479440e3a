"""Restore the initial state of a sandbox: clear every place that outlives the processes of the sandbox user.

The caller has already assumed the rights of the sandbox user, so only objects of that user are changed.
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
from typing import Any

from .files import WORKSPACE

WRITABLE_FOLDERS = (WORKSPACE, "/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - folders of the sandbox
SYSV_TABLES = (("shm", "shmctl", (0, None)), ("msg", "msgctl", (0, None)), ("sem", "semctl", (0, 0)))
KEYCTL_SYSCALL = {"x86_64": 250, "aarch64": 219}
KEYCTL_CLEAR = 7
KEYRINGS = (-4, -5)
"""The user keyring and the user session keyring."""


def writable_modes() -> dict[str, int]:
    """Return the permission bits of every writable folder."""
    return {folder: stat.S_IMODE(os.stat(folder).st_mode) for folder in WRITABLE_FOLDERS if os.path.isdir(folder)}


def clear(modes: dict[str, int]) -> None:
    """Empty the writable folders, restore their permission bits, and clear IPC tables and keyrings. Raises OSError."""
    clear_ipc()
    clear_keys()
    for folder, mode in modes.items():
        make_accessible(folder)
        empty(folder)
        with contextlib.suppress(OSError):
            for name in os.listxattr(folder):
                os.removexattr(folder, name)
        # PermissionError: the folder belongs to root, so the sandbox user could not change its mode either.
        with contextlib.suppress(PermissionError):
            os.chmod(folder, mode)
            os.utime(folder)


def libc() -> Any:
    """Return the C library, for system calls without a Python function. Imports ctypes only when needed."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def clear_ipc() -> None:
    """Remove all System V shared memory, message queues and semaphores. Raises OSError."""
    for table, control, command in SYSV_TABLES:
        with open("/proc/sysvipc/" + table) as file:
            ids = [int(line.split()[1]) for line in file.readlines()[1:]]
        for number in ids:
            if getattr(libc(), control)(number, *command):
                raise OSError(f"cannot remove {table} {number}")


def clear_keys() -> None:
    """Empty the keyrings; does nothing where the backend forbids the system call."""
    number = KEYCTL_SYSCALL.get(platform.machine())
    for ring in KEYRINGS if number else ():
        libc().syscall(number, KEYCTL_CLEAR, ring)


def make_accessible(folder: str) -> None:
    """Give the sandbox user all rights to a folder that it owns."""
    with contextlib.suppress(PermissionError):
        os.chmod(folder, 0o700)


def empty(folder: str) -> None:
    """Remove everything below a folder, despite missing rights. Raises OSError.

    Nested folders are first moved up to ``folder``, so that a tree may be deeper than the maximum length of a path.
    """
    prefix, number = f"{folder}/{os.urandom(8).hex()}", 0
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            make_accessible(entry.path)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    make_accessible(inner.path)
                    os.rename(inner.path, f"{prefix}{number}")
                    number += 1
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)
