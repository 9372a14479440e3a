"""The entries that the applications and the session write by themselves: everything else is the agent's doing.

Paths are relative to the root of the sandbox. To add one: a row in ``own_files.toml``, with the program that writes it.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from ....sandbox import Entry, Kind, Tree

FILE_MODE, FOLDER_MODE = 0o600, 0o700
"""Permission bits of every new file and folder, by the umask of the desktop."""
HOME = "workspace/home"
TRASH = f"{HOME}/.local/share/Trash"
DIGEST = "[0-9a-f]" * 32
BY_APPLICATIONS = tuple(
    f"{HOME}/{path.replace('DIGEST', DIGEST)}"
    for path in tomllib.loads((Path(__file__).parent / "own_files.toml").read_text())
)
"""Patterns of files, and of folders with ``/`` at the end; the folders around them count too."""
SOCKET = Entry(Kind.LOST, b"a socket")
SESSION: Mapping[str, Entry] = {
    "tmp/.X1-lock": Entry(Kind.FILE, mode=0o444),
    "tmp/.X11-unix": Entry(Kind.FOLDER, mode=0o1777),
    "tmp/.X11-unix/X1": SOCKET,
    "tmp/driver": Entry(Kind.LOST, b"permission denied"),
    "tmp/session": Entry(Kind.FOLDER, mode=0o755),
    "tmp/session/bus": SOCKET,
    "tmp/session/.lxterminal-socket-:1": SOCKET,
    "tmp/session/menu-cached-:1": SOCKET,
    "tmp/session/pcmanfm-socket--1": SOCKET,
    "tmp/session/bus.conf": Entry(Kind.FILE, mode=FILE_MODE),
    "tmp/session/group": Entry(Kind.FILE, mode=FILE_MODE),
    "tmp/session/passwd": Entry(Kind.FILE, mode=FILE_MODE),
}
"""Entries of the X server, the bus, the driver and running applications; the contents of the files are free."""
TRASH_NOTE = re.compile(rb"\[Trash Info\]\nPath=[^\n]*\nDeletionDate=[0-9T:-]+\n*")


def is_plain(entry: Entry) -> bool:
    """Return whether an entry is a file or a folder with the usual mode, and no hard link."""
    usual = {Kind.FILE: FILE_MODE, Kind.FOLDER: FOLDER_MODE}
    return entry.mode == usual.get(entry.kind) and not entry.same_as


def is_own(path: str, entry: Entry) -> bool:
    """Return whether the applications or the session write such an entry by themselves."""
    if path in SESSION:
        return SESSION[path] == (replace(entry, content=b"") if entry.kind is Kind.FILE else entry)
    return is_plain(entry) and any(_fits(path, entry.kind, pattern) for pattern in BY_APPLICATIONS)


def _fits(path: str, kind: Kind, pattern: str) -> bool:
    """Return whether a path is a pattern's file, its folder, or a folder around them."""
    names, wanted = path.split("/"), pattern.split("/")
    rest = len(wanted) - len(names)
    fits = (rest == 0) if kind is Kind.FILE else (rest > 0)
    return fits and all(map(fnmatchcase, names, wanted))


def trashed(tree: Tree) -> dict[str, bytes]:
    """Return the files in the Trash that a program deleted into it, by path below ``files``: each has its note."""
    inside = f"{TRASH}/files/"
    return {
        path.removeprefix(inside): entry.content
        for path, entry in tree.entries.items()
        if path.startswith(inside) and entry.kind is Kind.FILE and is_plain(entry) and _noted(tree, path)
    }


def is_trash(path: str, entry: Entry, tree: Tree) -> bool:
    """Return whether an entry is part of what a program deleted into the Trash."""
    if path == f"{TRASH}/directorysizes":
        return is_plain(entry)
    parts = path.removeprefix(f"{TRASH}/").split("/")
    if not path.startswith(f"{TRASH}/") or not is_plain(entry) or len(parts) < 2:
        return False
    if parts[0] == "info":
        name = parts[1].removesuffix(".trashinfo")
        return len(parts) == 2 and f"{TRASH}/files/{name}" in tree.entries and _noted(tree, f"{TRASH}/files/{name}")
    return parts[0] == "files" and _noted(tree, path)


def _noted(tree: Tree, path: str) -> bool:
    name = path.removeprefix(f"{TRASH}/files/").split("/")[0]
    note = tree.entries.get(f"{TRASH}/info/{name}.trashinfo")
    return note is not None and is_plain(note) and TRASH_NOTE.fullmatch(note.content) is not None


def shown_path(path: str) -> str:
    """Return a path relative to the home folder; one elsewhere begins with ``/``."""
    return path.removeprefix(f"{HOME}/") if path.startswith(f"{HOME}/") else f"/{path}"


def contents(files: Iterable[tuple[str, bytes]]) -> frozenset[bytes]:
    """Return the contents of a task's documents, which count wherever they are."""
    settings = Entry(Kind.FILE, mode=FILE_MODE)
    documents = ((path, content) for path, content in files if not path.endswith("/"))
    return frozenset(content for path, content in documents if not is_own(f"{HOME}/{path}", settings))
