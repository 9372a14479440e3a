"""Match the ``protected`` patterns of a task, and refuse those that do not protect what they mean.

``*``, ``?`` and ``[…]`` are those of a shell, except that ``*`` also matches ``/``, and ``**/`` also matches no folder.
A ``[`` stands for itself as well, so that the name of a file always protects it.
"""

import re
from collections.abc import Iterable
from fnmatch import translate
from functools import lru_cache
from posixpath import normpath
from unicodedata import normalize

from .....sandbox import Kind, Tree
from .....sandbox.sandbox import WORKSPACE

ANY_FOLDERS = re.compile(r"(?:^|(?<=/))(?:\*\*/)+")
NO_MEANING = (
    (re.compile("^~"), "`~` is no home folder"),
    (re.compile("^!"), "`!` makes no exception"),
    (re.compile(r"\\"), "a backslash neither separates folders nor escapes a mark"),
    (re.compile("[{}]"), "braces do not list alternatives"),
)
"""Marks of the patterns of other programs."""


def is_protected(path: str, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns matches a path."""
    return any(_compiled(pattern).match(path) for pattern in patterns)


@lru_cache(1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    # No path holds a null byte. The group is lazy, because `translate` keeps the first match of a part.
    marked = ANY_FOLDERS.sub("\0", pattern)
    readings = (marked, marked.replace("[", "[[]"))
    return re.compile("|".join(translate(each).replace("\0", "(?:.*?/)??") for each in readings))


def check_protected(patterns: Iterable[str], workspace: Tree) -> None:
    """Refuse a pattern that does not match the files that it means. It may name files that do not exist yet.

    Raises:
        ValueError: the message names the pattern and what to write instead.
    """
    files = [path for path, entry in workspace.entries.items() if entry.kind is not Kind.FOLDER]
    for pattern in patterns:
        fault = _half_matched(pattern, files, workspace)
        if not fault and not any(is_protected(path, [pattern]) for path in files):
            fault = _unmatched(pattern, files, workspace)
        if fault:
            raise ValueError(f"protected: {pattern!r} {fault}")


def _half_matched(pattern: str, files: list[str], workspace: Tree) -> str:
    """Return the fault of a pattern that matches a folder but not all files in it; empty if it matches none."""
    for folder in sorted(workspace.folders):
        inside = [path for path in files if path.startswith(f"{folder}/")]
        if is_protected(folder, [pattern]) and not all(is_protected(path, [pattern]) for path in inside):
            return f"matches no file of workspace/: write {f'{pattern}/*'!r}"
    return ""


def _unmatched(pattern: str, files: list[str], workspace: Tree) -> str:
    """Return the fault of a pattern that matches no file; empty if it may name files that do not exist yet."""
    fault = "matches no file of workspace/"
    for meant in (_relative(pattern, workspace), _relative(pattern.replace("\\", "/"), workspace)):
        alike = next((path for path in files if is_protected(_folded(path), [_folded(meant)])), "")
        if meant in workspace.folders:
            return f"{fault}: write {f'{meant}/*'!r}"
        if alike:
            return f"{fault}: write {meant if is_protected(alike, [meant]) else alike!r}"
    listed = re.split(r"[,;:\s]+", pattern)
    if any(is_protected(path, listed) for path in files):
        return f"{fault}: write each pattern as a text of its own, {listed!r}"
    for mark, meaning in NO_MEANING:
        if mark.search(pattern):
            return f"{fault}: {meaning}; write the paths"
    meant = _relative(pattern, workspace)
    if meant == ".." or meant.startswith("../") or meant in ("", "."):
        return f"{fault}, nor can a submission have such a file; write paths relative to workspace/"
    if meant != pattern:
        return f"{fault}: write {meant!r}"
    for link in (path for path in files if pattern.startswith(f"{path}/")):
        target = workspace.target(link, WORKSPACE)
        return (
            f"{fault}: {link} is not a folder; write {pattern.replace(link, target or link, 1) if target else link!r}"
        )
    return ""


def _relative(pattern: str, workspace: Tree) -> str:
    """Return a pattern relative to ``workspace/``, without white space around its names."""
    parts = "/".join("".join(filter(str.isprintable, part)).strip() for part in pattern.split("/"))
    before, found, after = f"/{normpath(parts).lstrip('/')}".rpartition("/workspace/")
    outside = parts.startswith(("/", "~")) or "workspace" not in workspace.folders
    return after if found and outside else f"{before}{found}{after}".lstrip("/")


def _folded(text: str) -> str:
    return normalize("NFC", text).casefold()
