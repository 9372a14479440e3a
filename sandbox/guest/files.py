"""Read and write files with the rights of a sandbox user, which the caller has already assumed.

Links are never followed as the last part of a path. Only regular files are read or written, and none of the kernel's
own: a path such as ``/proc/self/timerslack_ns`` would read or change the guest agent.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from collections.abc import Iterator

WORKSPACE = "/workspace"
MAX_FILES = 20_000
"""Files that one read may return."""
NAMES_MAX_BYTES = 3 << 20
"""Length as JSON of the names that one read may return; the host accepts a header of 4 MiB."""
PATH_MAX_BYTES = 4096
CREATE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
KERNEL_FILE_SYSTEMS = frozenset(
    b"proc sysfs cgroup cgroup2 devpts mqueue debugfs tracefs securityfs bpf configfs fusectl pstore".split()
)


class Refused(Exception):
    """The files or processes of the commands prevent an operation; the sandbox stays usable."""


def kernel_devices() -> frozenset[int]:
    """Return the device numbers of the mounted file systems whose files are the kernel's own."""
    found = set()
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            before, _, after = line.partition(b" - ")
            if after.split()[0] in KERNEL_FILE_SYSTEMS:
                major, _, minor = before.split()[2].partition(b":")
                found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def check_time(until: float) -> None:
    """Raise Refused after ``until``, a value of ``time.monotonic()``."""
    if time.monotonic() > until:
        raise Refused("not finished before the timeout")


def read_tree(path: str, max_bytes: int, kernel: frozenset[int], until: float) -> tuple[list[tuple[str, int]], bytes]:
    """Return (name, length) of every regular file below a path, and the concatenated contents.

    ``kernel`` are the devices whose files are skipped.

    Raises:
        Refused: the files exceed ``max_bytes``, ``MAX_FILES`` or ``NAMES_MAX_BYTES``, or reading them takes too long.
        OSError: the path does not exist.
    """
    names, data, left, names_left = [], [], max_bytes, NAMES_MAX_BYTES
    for name, full in walk(os.path.join(WORKSPACE, path), kernel, until):
        check_time(until)
        content = read_regular(full, left, kernel)
        if content is not None:
            names.append((name, len(content)))
            data.append(content)
            left -= len(content)
            # Of JSON, which takes up to six bytes for each byte of a name.
            names_left -= len(json.dumps(name))
        if len(names) > MAX_FILES:
            raise Refused(f"{path}: more than {MAX_FILES} files")
        if names_left < 0:
            raise Refused(f"{path}: the names of the files exceed {NAMES_MAX_BYTES} bytes")
    return names, b"".join(data)


def make_folders(path: str) -> None:
    """Create a folder and its missing parents. Raises OSError."""
    if len(os.fsencode(path)) >= PATH_MAX_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)


def write_tree(files: list[tuple[str, int]], data: bytes, mode: int, kernel: frozenset[int], until: float) -> None:
    """Write files, given as (name, length) and their concatenated contents.

    Raises:
        Refused: writing takes too long.
        OSError: a path is not a regular file, or is on one of the devices ``kernel``; or writing failed.
    """
    offset = 0
    for name, length in files:
        check_time(until)
        with opened(os.path.join(WORKSPACE, name), mode, kernel) as end:
            if mode & 0o100:
                os.fchmod(end, mode)
            write_all(end, memoryview(data)[offset : offset + length])
        offset += length


@contextlib.contextmanager
def opened(path: str, mode: int, kernel: frozenset[int]) -> Iterator[int]:
    """Yield the descriptor of an emptied file, made with this mode and its folders if missing. Raises OSError."""
    make_folders(os.path.dirname(path))
    end = os.open(path, CREATE, mode)
    try:
        if not is_plain(end, kernel):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
        yield end
    finally:
        os.close(end)


def write_all(end: int, content: bytes | memoryview) -> None:
    """Write a whole content to a descriptor. Raises OSError."""
    view = memoryview(content)
    while view:
        view = view[os.write(end, view) :]


def is_plain(end: int, kernel: frozenset[int]) -> bool:
    """Return whether a descriptor is a regular file on none of the devices ``kernel``."""
    status = os.fstat(end)
    return stat.S_ISREG(status.st_mode) and status.st_dev not in kernel


def walk(top: str, kernel: frozenset[int], until: float) -> Iterator[tuple[str, str]]:
    """Yield (name relative to ``top``, path) of everything below ``top`` except folders, without following links.

    If ``top`` itself is not a folder, its name is ``.``. Folders on the devices ``kernel`` are skipped. Raises OSError
    if ``top`` does not exist, and Refused after ``until``, also between folders: a process may move folders ahead of
    the walk, which then finds them again and again.
    """
    if not stat.S_ISDIR(os.lstat(top).st_mode):
        yield ".", top
        return
    # A stack instead of os.walk, which recurses once per level: a tree may have thousands of levels.
    folders = [top]
    while folders:
        check_time(until)
        folder = folders.pop()
        for name, is_folder in listed(folder, kernel):
            path = os.path.join(folder, name)
            if is_folder:
                folders.append(path)
            else:
                yield os.path.relpath(path, top), path


def listed(folder: str, kernel: frozenset[int]) -> list[tuple[str, bool]]:
    """Return (name, is a folder) of the entries of a folder in order; nothing if the folder may not be listed."""
    try:
        end = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return []
    try:
        # Of the open folder: a process may replace the path by a link at any moment.
        if os.fstat(end).st_dev in kernel:
            return []
        with os.scandir(end) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError:
        return []
    finally:
        os.close(end)


def read_regular(path: str, max_bytes: int, kernel: frozenset[int]) -> bytes | None:
    """Return the content of a regular file; None for any other kind of file and for a file that may not be read.

    Raises:
        Refused: the file is longer than ``max_bytes``.
        OSError: reading failed for another reason than missing rights.
    """
    try:
        end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.ELOOP, errno.ENXIO, errno.ENOENT):
            return None
        raise
    with open(end, "rb") as file:
        if not is_plain(end, kernel):
            return None
        if os.fstat(end).st_size > max_bytes:
            raise Refused(f"{path}: {os.fstat(end).st_size} bytes exceed the limit of one read")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise Refused(f"{path}: the file grew beyond the limit of one read")
    return content
