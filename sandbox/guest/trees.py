"""Read and write whole trees (``transport.tree`` on the host) with the rights that the caller has assumed.

A tree travels as a list of ``[path, kind, mode, mtime_ns, length]`` and the concatenated contents; without a
modification time, ``mtime_ns`` is None. Kinds: ``file``, ``folder``, ``link`` (the content is its target), ``same`` (a
hard link; the content is the path of the first name) and ``lost`` (the content is the reason). No link is followed in
reading; in writing, links are made last.
"""

from __future__ import annotations

import errno
import json
import os
import stat

from .files import (
    MAX_FILES,
    NAMES_MAX_BYTES,
    WORKSPACE,
    Refused,
    check_time,
    make_folders,
    opened,
    read_regular,
    write_all,
)

LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

Listed = tuple[str, str, int, "int | None", int]


class Reading:
    """The entries and contents read so far."""

    def __init__(self, max_bytes: int, kernel: frozenset[int], until: float) -> None:
        self.left, self.names_left, self.until = max_bytes, NAMES_MAX_BYTES, until
        self.kernel = kernel
        self.entries: list[Listed] = []
        self.data: list[bytes] = []
        self.first: dict[tuple[int, int], str] = {}
        """Path of the first name of each file with several names, by device and inode."""

    def add(self, name: str, kind: str, content: bytes, mode: int = 0, mtime_ns: int | None = None) -> None:
        """Add an entry. Raises Refused if the tree becomes too large, or after ``until``."""
        check_time(self.until)
        entry = (name, kind, stat.S_IMODE(mode), mtime_ns, len(content))
        self.entries.append(entry)
        self.data.append(content)
        self.left -= len(content)
        # Of JSON, which takes up to six bytes for each byte of a name.
        self.names_left -= len(json.dumps(entry))
        if len(self.entries) > MAX_FILES:
            raise Refused(f"more than {MAX_FILES} files")
        if self.names_left < 0:
            raise Refused(f"the names of the files exceed {NAMES_MAX_BYTES} bytes")
        if self.left < 0:
            raise Refused("the files exceed the limit of one read")

    def visit(self, name: str, path: str) -> list[str] | None:
        """Add what is at a path, and return the names in it if it is a folder. Raises as ``add``.

        A path that does not exist adds nothing: a process removed it.
        """
        try:
            return self.visit_existing(name, path)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.add(name, "lost", os.strerror(error.errno or 0).lower().encode())
            return None

    def visit_existing(self, name: str, path: str) -> list[str] | None:
        """Add what is at a path, as ``visit`` does. Raises OSError."""
        status = os.lstat(path)
        mode, mtime_ns = status.st_mode, status.st_mtime_ns
        if stat.S_ISDIR(mode):
            names = listed(path, self.kernel)
            self.add(name, "folder", b"", mode, mtime_ns)
            return names
        if stat.S_ISLNK(mode):
            self.add(name, "link", os.fsencode(os.readlink(path)))
        elif not stat.S_ISREG(mode):
            kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
            self.add(name, "lost", kind.encode())
        elif (status.st_dev, status.st_ino) in self.first:
            self.add(name, "same", os.fsencode(self.first[status.st_dev, status.st_ino]), mode, mtime_ns)
        else:
            content = read_regular(path, self.left, self.kernel)
            if content is None:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            if status.st_nlink > 1:
                self.first[status.st_dev, status.st_ino] = name
            self.add(name, "file", content, mode, mtime_ns)
        return None


def listed(folder: str, kernel: frozenset[int]) -> list[str]:
    """Return the names in a folder, in order. Raises OSError."""
    end = os.open(folder, LIST)
    try:
        # Of the open folder: a process may replace the path by a link at any moment.
        if os.fstat(end).st_dev in kernel:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), folder)
        return sorted(os.listdir(end))
    finally:
        os.close(end)


def read_whole(path: str, max_bytes: int, kernel: frozenset[int], until: float) -> tuple[list[Listed], bytes]:
    """Return the entries of everything below a folder and their contents; if it is not a folder, one entry ``.``.

    Raises:
        Refused: the tree exceeds a limit, or reading takes too long.
        OSError: the path does not exist, or it is a folder that may not be listed.
    """
    top, reading = os.path.join(WORKSPACE, path), Reading(max_bytes, kernel, until)
    if not stat.S_ISDIR(os.lstat(top).st_mode):
        reading.visit(".", top)
        return reading.entries, b"".join(reading.data)
    # A stack, because a tree may have thousands of levels.
    folders = [("", top, listed(top, kernel))]
    while folders:
        prefix, folder, names = folders.pop()
        for name in names:
            check_time(until)
            inner, full = prefix + name, os.path.join(folder, name)
            below = reading.visit(inner, full)
            if below is not None:
                folders.append((inner + "/", full, below))
    return reading.entries, b"".join(reading.data)


def write_whole(path: str, entries: list[Listed], data: bytes, kernel: frozenset[int], until: float) -> None:
    """Put a tree in place below a folder: folders, files, hard links, links, then the modes and times of the folders.

    Raises:
        Refused: writing takes too long.
        OSError: a path is taken by another kind of file, or is on one of the devices ``kernel``; or writing failed.
    """
    top, offset = os.path.join(WORKSPACE, path), 0
    parts: dict[str, list[tuple[str, int, int | None, bytes]]] = {"folder": [], "file": [], "same": [], "link": []}
    for name, kind, mode, mtime_ns, length in entries:
        parts[kind].append((os.path.join(top, name), mode, mtime_ns, data[offset : offset + length]))
        offset += length
    make_folders(top)
    for full, _, _, _ in sorted(parts["folder"]):
        check_time(until)
        make_folders(full)
    for full, mode, mtime_ns, content in parts["file"]:
        check_time(until)
        with opened(full, 0o600, kernel) as end:
            write_all(end, content)
            set_status(end, mode, mtime_ns)
    for full, _, _, first in parts["same"]:
        check_time(until)
        make_folders(os.path.dirname(full))
        os.link(os.path.join(os.fsencode(top), first), full, follow_symlinks=False)
    for full, _, _, target in parts["link"]:
        check_time(until)
        make_folders(os.path.dirname(full))
        os.symlink(target, os.fsencode(full))
    for full, mode, mtime_ns, _ in sorted(parts["folder"], reverse=True):
        check_time(until)
        end = os.open(full, LIST)
        try:
            set_status(end, mode, mtime_ns)
        finally:
            os.close(end)


def set_status(end: int, mode: int, mtime_ns: int | None) -> None:
    """Set the mode of an open file and, unless it is None, its modification time. Raises OSError."""
    os.fchmod(end, mode)
    if mtime_ns is not None:
        os.utime(end, ns=(mtime_ns, mtime_ns))
