"""The folders that the desktop's user can write: emptied between episodes, filled at the start of one."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

HOME = os.path.realpath("/home/user")
FILE_TIME_S = 1_736_942_400
"""Time of change of every file at the start of an episode: noon of 15 January 2025, so that dialogs show one date."""
KEPT = {
    "/workspace": frozenset[str](),
    "/tmp": frozenset({"session", "driver", ".X11-unix", ".X1-lock"}),  # noqa: S108 - a path in the sandbox
    "/dev/shm": frozenset[str](),  # noqa: S108 - a path in the sandbox
    "/dev/mqueue": frozenset[str](),
}
"""Writable folders, and the entries of the driver and of the session that stay."""
SETTINGS_FILE = ".config/glib-2.0/settings/keyfile"
BOOKMARKS_FOLDER = ".config/gtk-3.0"
"""File dialogs watch it. One that does not find it makes it, and builds its list of places again seconds later."""
DELETE_TIMEOUT_S = 10
IPC_TABLES = (("shm", "shmctl", (0, None)), ("msg", "msgctl", (0, None)), ("sem", "semctl", (0, 0)))
"""Tables of System V objects, and the arguments of the calls that remove one."""


def clear() -> None:
    """Remove everything in the writable folders but ``KEPT``, and this user's System V objects. Raises OSError."""
    for folder, kept in KEPT.items():
        if not os.path.isdir(folder):
            continue
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o755)  # noqa: S103 - a folder of this user only
        for entry in os.listdir(folder):
            if entry not in kept:
                delete(f"{folder}/{entry}")
    libc = ctypes.CDLL(None)
    for table, control, command in IPC_TABLES:
        with contextlib.suppress(FileNotFoundError), open(f"/proc/sysvipc/{table}", "rb") as file:
            for line in file.readlines()[1:]:
                getattr(libc, control)(int(line.split()[1]), *command)


def delete(path: str) -> None:
    """Remove a file or a folder with everything in it. Raises OSError."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if os.path.lexists(path):
        # Folders without rights, or a tree deeper than Python's recursion.
        subprocess.run(["/bin/chmod", "-R", "u+rwx", path], check=False, capture_output=True, timeout=DELETE_TIMEOUT_S)
        subprocess.run(["/bin/rm", "-rf", path], check=True, capture_output=True, timeout=DELETE_TIMEOUT_S)


def write_home(documents: Mapping[str, str], settings: Mapping[str, Mapping[str, str]]) -> None:
    """Write the home folder: files as base64 by relative path, and settings by schema and key. Raises OSError."""
    os.makedirs(f"{HOME}/{BOOKMARKS_FOLDER}", exist_ok=True)
    for path, content in documents.items():
        target = Path(HOME, path)
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(content))
    if settings:
        lines = []
        for schema, values in settings.items():
            lines.append(f"[{schema.replace('.', '/')}]")
            lines += [f"{key}={value}" for key, value in values.items()]
        target = Path(HOME, SETTINGS_FILE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n")
    for root, folders, names in os.walk(HOME):
        for name in (*folders, *names):
            os.utime(f"{root}/{name}", (FILE_TIME_S, FILE_TIME_S))
    os.utime(HOME, (FILE_TIME_S, FILE_TIME_S))


def listing(folder: str) -> list[tuple[str, int, int, int]]:
    """Return path and mode of everything below a folder, and size and time of change of what is not a folder."""
    found = []
    for root, folders, names in os.walk(folder, followlinks=False):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):
                status = os.lstat(f"{root}/{name}")
                changed = (0, 0) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)
                found.append((f"{root}/{name}", status.st_mode, *changed))
    return sorted(found)


State = dict[str, tuple[int, int, bytes]]
"""Mode, and time of change and content of a regular file, by path."""


def state(*paths: str) -> State:
    """Return the state of files, and of folders with the files in them. Raises OSError."""
    found = {}
    for path in paths:
        for one in (path, *(f"{path}/{name}" for name in (os.listdir(path) if os.path.isdir(path) else ()))):
            status = os.lstat(one)
            regular = stat.S_ISREG(status.st_mode)
            changed = (status.st_mtime_ns, Path(one).read_bytes()) if regular else (0, b"")
            found[one] = (status.st_mode, *changed)
    return found


def restore(expected: State, *paths: str) -> list[str]:
    """Delete files in folders that are not ``expected``; return the reasons if something else differs.

    Raises:
        OSError: a file cannot be deleted.
    """
    for folder in filter(os.path.isdir, paths):
        for name in os.listdir(folder):
            if f"{folder}/{name}" not in expected:
                delete(f"{folder}/{name}")
    try:
        found = state(*paths)
    except OSError as error:
        return [str(error)]
    return [f"changed {path}" for path in sorted(expected) if found.get(path) != expected[path]]
