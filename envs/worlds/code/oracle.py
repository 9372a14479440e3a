"""The oracle's next action: the change that brings the files of the sandbox nearer to those of the solution.

It uses ``write`` where that writes the very bytes. Otherwise it uses a script of ``bash``: for contents that are not
text or have no final newline, for odd names, for modes and for links.
"""

import base64
import os
import shlex
from dataclasses import replace

from ....sandbox import Entry, Kind, Tree
from ....sandbox.transport.tree import parents
from .task import Change, changed
from .tools.actions import MalformedAction, Write, parse

CHUNK_BYTES = 48 << 10
"""Bytes that one action writes in base 64."""
OWN_BITS = 0o7700
"""Permission bits that a solution sets: those of the owner. Those of others depend on the author's machine."""
WRITABLE, OPEN = 0o200, 0o700
"""Permission bits of a file that can be written, and of a folder whose entries can be changed."""


def next_action(current: Tree, workspace: Tree, solution: Change) -> str:
    """Return the next action towards ``workspace`` changed by ``solution``; ``submit`` if nothing is left to do."""
    wanted, current = _by_first_name(changed(workspace, solution)), _by_first_name(current)
    kept = wanted.entries.keys() | (wanted.folders & current.folders)
    for path in sorted(workspace.entries.keys() & current.entries.keys() - kept):
        return _opening(current, path) or _removal(path, current.entries[path])
    for path, entry in sorted(wanted.entries.items()):
        before = current.entries.get(path)
        if before is None and entry.kind is Kind.FOLDER and path in current.folders:
            continue
        if action := _step(path, before, entry):
            return _opening(current, path) or action
    for path, entry in sorted(wanted.entries.items(), reverse=True):
        if path in current.entries and (current.entries[path].mode ^ entry.mode) & OWN_BITS:
            return _script(f"chmod {entry.mode:o} -- {_quoted(path)}")
    return "submit"


def _opening(current: Tree, path: str) -> str:
    """Return the action that makes the folder of an entry writable; empty if it is, or is still to be made."""
    folder = next((parent for parent in parents(path) if parent in current.entries), "")
    if folder and current.entries[folder].kind is Kind.FOLDER and ~current.entries[folder].mode & OPEN:
        return _script(f"chmod u+rwx -- {_quoted(folder)}")
    return ""


def _removal(path: str, entry: Entry) -> str:
    """Return the action that removes an entry, with all that is below it."""
    opened = f"chmod -R u+rwx -- {_quoted(path)} && " if entry.kind is Kind.FOLDER else ""
    return _script(f"{opened}rm -rf -- {_quoted(path)}")


def _by_first_name(tree: Tree) -> Tree:
    """Return the tree in which each other name of a file refers to the first one in sorted order.

    A tree refers to the first name that was read, and readers differ in their order. A name of a file that was changed
    alone is no longer another name.
    """
    names = dict[str, list[str]]()
    for path in sorted(tree.entries):
        names.setdefault(_referred(tree, path), []).append(path)
    first = {path: same[0] for same in names.values() for path in same}
    return Tree(
        {
            path: replace(entry, same_as=first[path] if first[path] != path else "")
            for path, entry in tree.entries.items()
        }
    )


def _referred(tree: Tree, path: str) -> str:
    """Return the path that a name of a file refers to, its own if it is the only name or was changed alone."""
    seen = {path}
    while (other := tree.entries[path].same_as) not in seen:
        if other not in tree.entries or not tree.entries[other].equals(tree.entries[path]):
            break
        seen.add(path := other)
    return path


def _step(path: str, before: Entry | None, entry: Entry) -> str:
    """Return the next action for one entry; empty if it is as wanted, except for its mode."""
    name = _quoted(path)
    if before is not None and before.kind is not entry.kind:
        return _removal(path, before)
    if entry.kind is Kind.LINK:
        if before is not None and before.content == entry.content:
            return ""
        return _script(f"{_parent(path)}ln -sfn -- {_quoted(entry.text)} {name}")
    if entry.kind is Kind.FILE:
        first_name = before.same_as if before is not None else ""
        if entry.same_as:
            return "" if first_name == entry.same_as else _script(f"ln -f -- {_quoted(entry.same_as)} {name}")
        if first_name:
            return _script(f"rm -f -- {name}")
        if before is not None and before.content != entry.content and not before.mode & WRITABLE:
            return _script(f"chmod u+w -- {name}")
        if before is None or before.content != entry.content:
            return _writing(path, before.content if before is not None else b"", entry.content)
    return _script(f"mkdir -p -- {name}") if before is None and entry.kind is Kind.FOLDER else ""


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
