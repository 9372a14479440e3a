"""The oracle's next action: the change that brings the files of the sandbox nearer to those of the solution.

It uses ``write`` where that writes the very bytes. Otherwise it uses a script of ``bash``: for contents that are not
text or have no final newline, for odd names, for modes and for links.
"""

import base64
import os
import shlex

from ...sandbox import Entry, Kind, Tree
from .task import Change, changed
from .tools.actions import MalformedAction, Write, parse

CHUNK_BYTES = 48 << 10
"""Bytes that one action writes in base 64."""
OWN_BITS = 0o7700
"""Permission bits that a solution sets: those of the owner. Those of others depend on the author's machine."""
WRITABLE = 0o200


def next_action(current: Tree, workspace: Tree, solution: Change) -> str:
    """Return the next action towards ``workspace`` changed by ``solution``; ``submit`` if nothing is left to do."""
    wanted = changed(workspace, solution)
    for path in sorted(workspace.entries.keys() & current.entries.keys() - wanted.entries.keys()):
        return _script(f"rm -rf -- {_quoted(path)}")
    for path, entry in sorted(wanted.entries.items()):
        before = current.entries.get(path)
        if before is None and entry.kind is Kind.FOLDER and path in current.folders:
            continue
        if action := _step(path, before, entry):
            return action
    return "submit"


def _step(path: str, before: Entry | None, entry: Entry) -> str:
    """Return the next action for one entry; empty if it is as wanted."""
    name = _quoted(path)
    if before is not None and before.kind is not entry.kind:
        return _script(f"rm -rf -- {name}")
    if entry.kind is Kind.LINK:
        if before is not None and before.content == entry.content:
            return ""
        return _script(f"{_parent(path)}ln -sfn -- {_quoted(entry.text)} {name}")
    if entry.kind is Kind.FILE:
        if entry.same_as:
            return "" if before is not None and before.same_as else _script(f"ln -f -- {_quoted(entry.same_as)} {name}")
        if before is not None and before.content != entry.content and not before.mode & WRITABLE:
            return _script(f"chmod u+w -- {name}")
        if before is None or before.content != entry.content:
            return _writing(path, before.content if before is not None else b"", entry.content)
    if before is None:
        return _script(f"mkdir -p -- {name}")
    return _script(f"chmod {entry.mode:o} -- {name}") if (before.mode ^ entry.mode) & OWN_BITS else ""


def _writing(path: str, before: bytes, content: bytes) -> str:
    """Return the action that writes a file, or its next part."""
    try:
        action = f"write {path}\n{content.decode()}"
        if parse(action) == Write(path, content.decode()):
            return action
    except (UnicodeDecodeError, MalformedAction):
        pass
    begun = bool(before) and content.startswith(before)
    part = base64.b64encode(content[len(before) if begun else 0 :][:CHUNK_BYTES]).decode()
    return _script(f"{_parent(path)}printf %s '{part}' | base64 -d {'>>' if begun else '>'} {_quoted(path)}")


def _script(script: str) -> str:
    return f"bash\n{script}"


def _parent(path: str) -> str:
    """Return the command that makes the folder of a path; empty in the work folder itself."""
    folder = path.rpartition("/")[0]
    return f"mkdir -p -- {_quoted(folder)} && " if folder else ""


def _quoted(path: str) -> str:
    """Return a path as a word of bash, in printable ASCII; one that begins with a dash is made relative."""
    path = f"./{path}" if path.startswith("-") else path
    if path.isascii() and path.isprintable():
        return shlex.quote(path)
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(path)) + "'"
