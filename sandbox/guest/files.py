"""Read and write files with the rights of the sandbox user, which the caller has already assumed.

Links are never followed, and only regular files are opened for reading.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

WORKSPACE = "/workspace"
MAX_FILES = 20_000
"""Files that one read may return."""


def read_tree(path: str, max_bytes: int) -> tuple[list[tuple[str, int]], bytes]:
    """Return (name, length) of every regular file below a path, and the concatenated contents.

    Raises:
        ValueError: the files exceed ``max_bytes`` or ``MAX_FILES``.
        OSError: the path does not exist.
    """
    names, data, left = [], [], max_bytes
    for name, full in walk(os.path.join(WORKSPACE, path)):
        content = read_regular(full, left)
        if content is not None:
            names.append((name, len(content)))
            data.append(content)
            left -= len(content)
        if len(names) > MAX_FILES:
            raise ValueError(f"{path}: more than {MAX_FILES} files")
    return names, b"".join(data)


def make_folders(path: str) -> None:
    """Create a folder and its missing parents, at any depth. Raises OSError."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.mkdir(folder)


def write_tree(files: list[tuple[str, int]], data: bytes, mode: int) -> None:
    """Write files, given as (name, length) and their concatenated contents. Raises OSError."""
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
    """Yield (name relative to ``top``, path) of everything below ``top`` except folders, without following links.

    If ``top`` itself is not a folder, its name is ``.``. Raises OSError if ``top`` does not exist.
    """
    if not stat.S_ISDIR(os.lstat(top).st_mode):
        yield ".", top
        return
    # A stack instead of os.walk, which recurses once per level: a tree may have thousands of levels.
    folders = [top]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError):
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield os.path.relpath(entry.path, top), entry.path


def read_regular(path: str, max_bytes: int) -> bytes | None:
    """Return the content of a regular file; None for any other kind of file and for a file that may not be read.

    Raises:
        ValueError: the file is longer than ``max_bytes``.
        OSError: reading failed for another reason than missing rights.
    """
    try:
        end = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.ELOOP, errno.ENXIO, errno.ENOENT):
            return None
        raise
    with open(end, "rb") as file:
        status = os.fstat(end)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > max_bytes:
            raise ValueError(f"{path}: {status.st_size} bytes exceed the limit of one read")
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"{path}: the file grew beyond the limit of one read")
    return content
