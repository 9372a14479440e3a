"""Files, as the payload sees them: whoever calls has taken on its rights. Links are not followed, and nothing but
regular files is opened for reading.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

WORKSPACE = "/workspace"
LIMIT_FILES = 20_000


def read_tree(path: str, cap: int) -> tuple[list[tuple[str, int]], bytes]:
    """The names and lengths of the files below a path, and their contents in a row.

    Raises:
        ValueError: they are more than ``cap`` bytes, or too many.
        OSError: there is nothing.
    """
    names, data, left = [], [], cap
    for name, full in walk(os.path.join(WORKSPACE, path)):
        content = read_regular(full, left)
        if content is not None:
            names.append((name, len(content)))
            data.append(content)
            left -= len(content)
        if len(names) > LIMIT_FILES:
            raise ValueError(f"{path}: more than {LIMIT_FILES} files")
    return names, b"".join(data)


def make_folders(path: str) -> None:
    """A folder and those above it, however deep. Raises OSError."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        os.mkdir(each)


def write_tree(files: list[tuple[str, int]], data: bytes, mode: int) -> None:
    """Write files given as names and lengths, with their contents in a row. Raises OSError."""
    offset = 0
    for name, length in files:
        full = os.path.join(WORKSPACE, name)
        make_folders(os.path.dirname(full))
        end = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
        try:
            if mode & 0o100:
                os.fchmod(end, mode)
            view = memoryview(data)[offset : offset + length]
            while view:
                view = view[os.write(end, view) :]
        finally:
            os.close(end)
        offset += length


def walk(top: str) -> Iterator[tuple[str, str]]:
    """Every path below ``top`` that is no folder, with its name relative to it; links are not followed."""
    if not stat.S_ISDIR(os.lstat(top).st_mode):
        yield ".", top
        return
    # A stack, not os.walk: that calls itself once a level, and a tree may have thousands.
    folders = [top]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield os.path.relpath(entry.path, top), entry.path


def read_regular(path: str, cap: int) -> bytes | None:
    """The content of a regular file of the payload's; None for anything else, and for one it may not read.

    Raises:
        ValueError: it is longer than ``cap``.
    """
    try:
        end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.ELOOP, errno.ENXIO, errno.ENOENT):
            return None
        raise
    with open(end, "rb") as file:
        about = os.fstat(end)
        if not stat.S_ISREG(about.st_mode):
            return None
        if about.st_size > cap:
            raise ValueError(f"{path}: {about.st_size} bytes are more than may be read at once")
        content = file.read(cap + 1)
    if len(content) > cap:
        raise ValueError(f"{path}: it grew beyond what may be read at once")
    return content
