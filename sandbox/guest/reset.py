"""Restore the initial state of a sandbox: clear every place that outlives the processes of the sandbox users.

No process of a sandbox user is alive meanwhile. Folders are emptied with the rights of the guest agent; objects of IPC
and keys are removed with the rights of their owner, which the caller has assumed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import stat
import time
from typing import Any

from .files import WORKSPACE, check_time

WRITABLE_FOLDERS = (WORKSPACE, "/tmp", "/dev/shm", "/dev/mqueue")  # noqa: S108 - folders of the sandbox
SYSV_TABLES = (("shm", "shmctl", (0, None)), ("msg", "msgctl", (0, None)), ("sem", "semctl", (0, 0)))
SYSV_INFO = {"shm": (14, 0), "msg": (12, 0), "sem": (19, 7)}
"""Command of the system call that counts the objects of a table, and the index of the count in the result."""
KEYCTL_SYSCALL = {"x86_64": 250, "aarch64": 219}
KEYCTL_CLEAR = 7
KEYRINGS = (-4, -5)
"""The user keyring and the user session keyring."""
IPC_TIMEOUT_S = 2.0
"""Time for the memory of ended processes to be released."""
SET_FLAGS_IOCTL = 0x40086602
"""``FS_IOC_SETFLAGS``, the ioctl of ``chattr``."""


def writable_modes() -> dict[str, int]:
    """Return the permission bits of every writable folder."""
    return {folder: stat.S_IMODE(os.stat(folder).st_mode) for folder in WRITABLE_FOLDERS if os.path.isdir(folder)}


def clear_folders(modes: dict[str, int], until: float) -> None:
    """Empty the writable folders, and restore their permission bits, attributes and times.

    Raises:
        Refused: not finished at ``until``.
        OSError: a folder cannot be emptied.
    """
    for folder, mode in modes.items():
        make_accessible(folder)
        clear_flags(folder)
        empty(folder, until)
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


def clear_flags(folder: str) -> None:
    """Clear the inode flags of a folder, which `chattr` sets; do nothing where the file system has none."""
    with contextlib.suppress(OSError):
        end = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(end, SET_FLAGS_IOCTL, bytes(8))
        finally:
            os.close(end)


def clear_ipc() -> None:
    """Remove the System V shared memory, message queues and semaphores that the current user may remove."""
    for table, control, command in SYSV_TABLES:
        for number in sysv_ids(table):
            getattr(libc(), control)(number, *command)


def await_no_ipc(until: float) -> None:
    """Wait until no System V object is left.

    A removed shared memory lives until the last process that has it in its memory has released it. A process of the
    host that reads the memory map of an ending process, such as `ps`, delays this.

    Raises:
        OSError: an object is left at ``until``, a value of ``time.monotonic()``.
    """
    for table, control, _ in SYSV_TABLES:
        while count := count_ipc(table, control):
            if time.monotonic() > until:
                raise OSError(f"cannot remove {count} {table}")
            time.sleep(0.001)


def sysv_ids(table: str) -> list[int]:
    """Return the ids of the objects in a table of ``/proc/sysvipc``; none where the kernel lists none, as in gVisor."""
    try:
        with open("/proc/sysvipc/" + table, "rb") as file:
            return [int(line.split()[1]) for line in file.readlines()[1:]]
    except FileNotFoundError:
        return []


def count_ipc(table: str, control: str) -> int:
    """Return the number of objects in a System V table. Raises OSError."""
    import ctypes

    command, index = SYSV_INFO[table]
    result = (ctypes.c_int * 64)()
    first = (0, 0) if table == "sem" else (0,)
    if getattr(libc(), control)(*first, command, result) < 0:
        raise OSError(ctypes.get_errno(), f"cannot count {table}")
    return result[index]


def clear_keys() -> None:
    """Empty the keyrings; does nothing where the backend forbids the system call."""
    number = KEYCTL_SYSCALL.get(platform.machine())
    for ring in KEYRINGS if number else ():
        libc().syscall(number, KEYCTL_CLEAR, ring)


def make_accessible(folder: str) -> None:
    """Give the owner of a folder all rights to it."""
    with contextlib.suppress(PermissionError):
        os.chmod(folder, 0o700)


def empty(folder: str, until: float) -> None:
    """Remove everything below a folder, despite missing rights. Raises Refused after ``until``, and OSError.

    Nested folders are first moved up to ``folder``, so that a tree may be deeper than the maximum length of a path.
    """
    prefix, number = f"{folder}/{os.urandom(8).hex()}", 0
    while entries := list(os.scandir(folder)):
        for entry in entries:
            check_time(until)
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
