"""Answers of a guest agent, checked before use, as if an attacker had taken over the guest agent.

Trees are sent and received as ``guest.trees`` does.
"""

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from .tree import Entry, Kind, Tree


class ResultHeader(BaseModel):
    """Header of the result of a command or of a request to a socket; the payload is stdout and stderr."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    exit_code: int
    timed_out: bool
    output_limit_exceeded: bool
    oom: bool
    duration_s: FiniteFloat
    stdout_bytes: Annotated[int, Field(ge=0)]


def refusal(answer: Mapping[str, Any]) -> str | None:
    """Return why the guest agent refused the operation; None if it did not. Raises ValueError."""
    if "error" not in answer:
        return None
    if not isinstance(answer["error"], str):
        raise ValueError("a refusal without a text")
    return answer["error"]


def digest(answer: Mapping[str, Any]) -> str:
    """Return the digest of files. Raises ValueError."""
    if not isinstance(answer.get("digest"), str):
        raise ValueError("no digest")
    return str(answer["digest"])


def contents(answer: Mapping[str, Any], payload: bytes) -> dict[str, bytes]:
    """Return the contents of files by name.

    Raises:
        ValueError: the files are not those of the payload, or a name leads out of the folder that was read.
    """
    files = answer.get("files")
    if not isinstance(files, list):
        raise ValueError("no list of files")
    found, offset = dict[str, bytes](), 0
    for entry in files:
        name, length = _file(entry)
        found[name] = payload[offset : offset + length]
        offset += length
    if offset != len(payload):
        raise ValueError("files of other lengths than the payload")
    return found


def _file(entry: object) -> tuple[str, int]:
    """Return name and length of a file. Raises ValueError."""
    match entry:
        case [str(name), int(length)] if length >= 0:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError("a file outside the folder that was read")
            return name, length
    raise ValueError("a file without a name and a length")


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
