"""Trees as a guest agent sends and receives them (``guest.trees``), checked before use."""

import os
from collections.abc import Mapping
from typing import Any

from .tree import Entry, Kind, Tree

SAME = "same"
MODE_MAX = 0o7777
Listed = tuple[str, str, int, int | None, int]


def decode_tree(answer: Mapping[str, Any], payload: bytes) -> Tree:
    """Return the tree of an answer.

    Raises:
        ValueError: the entries are not those of the payload, or one leads out of the folder that was read.
    """
    listed = answer.get("entries")
    if not isinstance(listed, list):
        raise ValueError("no list of entries")
    entries, offset = dict[str, Entry](), 0
    for each in listed:
        path, kind, mode, mtime_ns, length = _listed(each)
        content = payload[offset : offset + length]
        offset += length
        if path in entries:
            raise ValueError("a path occurs twice")
        if kind == SAME:
            first = os.fsdecode(content)
            if first not in entries or entries[first].kind is not Kind.FILE:
                raise ValueError("a hard link to another kind of entry")
            entries[path] = Entry(Kind.FILE, entries[first].content, mode, first, mtime_ns)
        else:
            entries[path] = Entry(Kind(kind), content, mode, mtime_ns=mtime_ns)
    if offset != len(payload):
        raise ValueError("entries of other lengths than the payload")
    return Tree(entries)


def encode_tree(tree: Tree) -> tuple[list[Listed], bytes]:
    """Return the entries of a tree and the concatenated contents; ``lost`` entries are left out.

    An entry that is the same file as another one becomes a hard link only if that one is in the tree and equal to it.
    """
    listed, data = list[Listed](), list[bytes]()
    for path, entry in tree.entries.items():
        if entry.kind is Kind.LOST:
            continue
        first = tree.entries.get(entry.same_as)
        same = first is not None and first.equals(entry)
        content = os.fsencode(entry.same_as) if same else entry.content
        listed.append((path, SAME if same else entry.kind.value, entry.mode, entry.mtime_ns, len(content)))
        data.append(content)
    return listed, b"".join(data)


def _listed(each: object) -> Listed:
    """Return one entry of a list. Raises ValueError."""
    match each:
        case [str(path), str(kind), int(mode), int() | None as mtime_ns, int(length)] if (
            0 <= mode <= MODE_MAX and length >= 0
        ):
            return path, kind, mode, mtime_ns, length
    raise ValueError("an entry without path, kind, mode, time and length")
