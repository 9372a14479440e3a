"""Tree: everything below a folder, so that it can be put in place elsewhere without a loss that nobody sees.

An entry has a path relative to the folder. A name that is not UTF-8 has surrogates for its other bytes, as in
``os.fsdecode``. Permission bits (set-user-id, set-group-id and sticky included), links, hard links,
empty folders and modification times are kept. A ``lost`` entry names what cannot be kept: a named pipe, a socket, a
device, a file that may not be read. Owners, extended attributes and access times are not part of a tree.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import PurePosixPath

PLAIN_MODE, PROGRAM_MODE = 0o644, 0o755
LINKS_MAX = 40
"""Maximum number of links on the way to a file, as in Linux."""


class Kind(StrEnum):
    """Kind of an entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a tree. Equal entries may have different modification times."""

    kind: Kind
    content: bytes = b""
    """Content of a file, target of a link, or the reason why an entry is lost."""
    mode: int = 0
    """Permission bits of a file or folder; 0 for other kinds."""
    same_as: str = ""
    """Path of another entry that is the same file, by a hard link."""
    mtime_ns: int | None = field(default=None, compare=False, repr=False)
    """Modification time of a file or folder, in nanoseconds since the epoch; None: the time of writing."""

    @classmethod
    def file(cls, content: bytes) -> "Entry":
        """Return a new file, executable if it begins with ``#!``."""
        return cls(Kind.FILE, content, PROGRAM_MODE if content.startswith(b"#!") else PLAIN_MODE)

    def equals(self, other: "Entry") -> bool:
        """Return whether two entries are equal; another name of the same file makes no difference."""
        return (self.kind, self.content, self.mode) == (other.kind, other.content, other.mode)

    @property
    def text(self) -> str:
        """Return the target of a link, or the reason why the entry is lost."""
        return os.fsdecode(self.content)


class Tree(Mapping[str, bytes]):
    """Entries by path. As a mapping, the contents of the regular files by path.

    Raises:
        ValueError: a path is empty, absolute, or contains ``.`` or ``..``.
    """

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        for path in entries:
            if path != "." and (not path or "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))):
                raise ValueError(f"{path!r} is not a path below a folder")
        self.entries = entries

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "Tree":
        """Return a tree of new files; a tree itself unchanged."""
        if isinstance(files, Tree):
            return files
        return cls({path: Entry.file(content) for path, content in files.items()})

    @cached_property
    def _files(self) -> dict[str, bytes]:
        return {path: entry.content for path, entry in self.entries.items() if entry.kind is Kind.FILE}

    def __getitem__(self, path: str) -> bytes:
        """Return the content of a file."""
        return self._files[path]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the paths of the files."""
        return iter(self._files)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def __bool__(self) -> bool:
        """Return whether there is an entry, of any kind."""
        return bool(self.entries)

    def __eq__(self, other: object) -> bool:
        """Compare all entries with those of another tree, or the files with another mapping."""
        return self.entries == other.entries if isinstance(other, Tree) else super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def folders(self) -> frozenset[str]:
        """Return the paths of all folders, those without an entry of their own included."""
        named = [path for path, entry in self.entries.items() if entry.kind is Kind.FOLDER]
        return frozenset([*named, *(parent for path in self.entries for parent in parents(path))])

    def only(self, keep: Callable[[str], bool]) -> "Tree":
        """Return the tree of the entries whose paths pass."""
        return Tree({path: entry for path, entry in self.entries.items() if keep(path)})

    def target(self, path: str, folder: str) -> str | None:
        """Return the path that an entry leads to through its links.

        ``folder`` is the absolute path of the tree, by which a link may leave the tree and return. Return None if the
        entry leads outside, leads through another folder outside, or leads to nothing.
        """
        found = self._followed(path, folder)
        entry = self.entries.get(found or "")
        is_loop = entry is not None and entry.kind is Kind.LINK
        return found if not is_loop and (found == "" or entry is not None or found in self.folders) else None

    def leaves(self, path: str, folder: str) -> bool:
        """Return whether an entry leads out of the tree through its links, or through a folder outside.

        ``folder`` is the absolute path of the tree. Links that lead to nothing inside, or to themselves, do not leave.
        """
        return self._followed(path, folder) is None

    def _followed(self, path: str, folder: str) -> str | None:
        """Return the path after all links, which may be missing, or a link if links lead to themselves; None outside.

        A step up from a link to a folder leads to the folder above its target.
        """
        top = folder.strip("/").split("/")
        left, at = [*top, *path.split("/")], list[str]()
        followed = 0
        while left:
            name = left.pop(0)
            if name == "..":
                del at[-1:]
            elif name not in ("", "."):
                at.append(name)
                if at[: len(top)] != top[: len(at)]:
                    return None
                entry = self.entries.get("/".join(at[len(top) :]))
                if entry is not None and entry.kind is Kind.LINK:
                    followed += 1
                    if followed > LINKS_MAX:
                        break
                    at = [] if entry.text.startswith("/") else at[:-1]
                    left = entry.text.split("/") + left
        return "/".join(at[len(top) :]) if at[: len(top)] == top else None

    def names(self) -> list[str]:
        """Return a line per entry for a reader: ``link -> target``, ``empty folder/``, one line for ``.git/``."""
        held = {parent for path in self.entries for parent in parents(path)}
        shown = list[str]()
        for path, entry in self.entries.items():
            if ".git" in path.split("/")[:-1] or (entry.kind is Kind.FOLDER and path in held):
                continue
            suffix = {Kind.FOLDER: "/", Kind.LINK: f" -> {_shown(entry.text)}", Kind.LOST: f" ({entry.text})"}
            shown.append(_shown(path) + suffix.get(entry.kind, ""))
        return sorted(shown + [f"{_shown(folder)}/" for folder in held if PurePosixPath(folder).name == ".git"])


def parents(path: str) -> list[str]:
    """Return the paths of the folders that a path is in, the nearest first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def _shown(path: str) -> str:
    return path if path.isprintable() else ascii(path)
