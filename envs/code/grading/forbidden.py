"""Remove forbidden files from a submission before grading.

A new or changed file is forbidden if it configures an interpreter, a test runner or a shell, or replaces one of their
modules or commands. Each forbidden file is restored or dropped, and reported. The file has no other effect,
so that an honest solution keeps its score.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from ..task import CodeTask, Files

CONFIGURATION = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "sitecustomize.py", "usercustomize.py"})
SHELL = frozenset({".bashrc", ".bash_profile", ".bash_login", ".bash_aliases", ".profile", ".gitconfig", ".envrc"})
SECTIONS = {
    "setup.cfg": (b"[tool:pytest]", b"[pytest]"),
    "tox.ini": (b"[pytest]",),
    "pyproject.toml": (b"[tool.pytest",),
}
"""Shared configuration files, and the sections that configure a test runner."""
MODULES = frozenset(sys.stdlib_module_names) | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py"}
_COMMANDS = "sh bash dash env python python3 pytest py.test git make cat ls sed grep awk diff find sort head tail test"
COMMANDS = frozenset(_COMMANDS.split())
UNCHECKED = b"\x01\x00\x00\x00"
"""The flags of a `.pyc` file that runs without a check against its source."""


@dataclass(frozen=True, slots=True)
class SanitizedFiles:
    """The files to grade, and the tampering found."""

    files: dict[str, bytes]
    tamper: tuple[str, ...]


def sanitize(task: CodeTask, left: Files) -> SanitizedFiles:
    """Return the submitted files without forbidden ones, and one line per forbidden file."""
    pristine = task.workspace
    files, tamper = dict[str, bytes](), list[str]()
    for path, content in left.items():
        if pristine.get(path) == content:
            files[path] = content
            continue
        reason = _protected(task, path) or forbidden(path, content, left)
        if reason:
            tamper.append(f"{reason}: {path}")
            if path in pristine:
                files[path] = pristine[path]
        elif not _dropped(path):
            files[path] = content
    for path, content in pristine.items():
        if path not in left and (_protected(task, path) or forbidden(path, content, pristine)):
            tamper.append(f"removed: {path}")
            files[path] = content
    return SanitizedFiles(files, tuple(_encodable(tamper)))


def tampering_outside(files: Files) -> tuple[str, ...]:
    """Report the forbidden files outside the work folder; no file from there is graded."""
    found = [(path, forbidden(path, content, files)) for path, content in files.items()]
    return tuple(_encodable(f"{reason}, outside the work folder: {path}" for path, reason in found if reason))


def forbidden(path: str, content: bytes, tree: Files) -> str:
    """Return why a new or changed file is forbidden; empty if it is allowed. ``tree`` holds all files of its tree."""
    where = PurePosixPath(path)
    name = where.name
    if name in CONFIGURATION or name.endswith(".pth"):
        return "configuration of the interpreter or the test runner"
    if any(section in content for section in SECTIONS.get(name, ())):
        return "configuration of the test runner"
    if name in SHELL:
        return "configuration of the shell"
    if ".git" in where.parts[:-1] and where.parent.name == "hooks" and not name.endswith(".sample"):
        return "git hook"
    if name.endswith(".pyc") and ("__pycache__" not in where.parts or content[4:8] == UNCHECKED):
        return "compiled code without its source"
    if name in COMMANDS:
        return "replaces a command"
    module = where.parent.name if name == "__init__.py" else where.stem if where.suffix in (".py", ".so") else ""
    root = where.parent.parent if name == "__init__.py" else where.parent
    # Only a top-level module shadows an import; a module inside a package does not.
    if module in MODULES and (root == PurePosixPath() or str(root / "__init__.py") not in tree):
        return "replaces a module"
    return ""


def _protected(task: CodeTask, path: str) -> str:
    return "protected" if any(fnmatchcase(path, pattern) for pattern in task.protected) else ""


def _dropped(path: str) -> bool:
    """Return whether the path is git history or a cache, which grading ignores."""
    return bool({".git", "__pycache__", ".pytest_cache"} & set(PurePosixPath(path).parts))


def _encodable(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (line.encode("utf-8", "replace").decode()[:200] for line in lines)
