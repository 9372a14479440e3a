"""Remove forbidden files from a submission before grading.

A new or changed file is forbidden if it configures an interpreter, a test runner or a shell, or replaces one of their
modules or commands. Each forbidden file is restored or dropped, and reported. The file has no other effect,
so that an honest solution keeps its score.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from .....sandbox import Entry, Kind, Tree
from .....sandbox.sandbox import WORKSPACE
from .....sandbox.transport.tree import parents
from ....draws import words
from ..checks.protected import is_protected
from ..task import CodeTask, Files, changed

CONFIGURATION = words("conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml sitecustomize.py usercustomize.py")
SHELL = words(".bashrc .bash_profile .bash_login .bash_aliases .profile .gitconfig .envrc")
SECTIONS = {
    "setup.cfg": (b"[tool:pytest]", b"[pytest]"),
    "tox.ini": (b"[pytest]",),
    "entry_points.txt": (b"[pytest11]",),
}
"""Shared INI files, and the sections that configure a test runner; pytest reads each in this spelling only."""
MAX_TOML_BYTES = 1 << 16
"""Maximum size of a new or changed ``pyproject.toml``."""
TOML_MARKS = (b"pytest", b"\\")
"""A ``pyproject.toml`` that configures pytest contains one of these, in some case: its name, or an escape that spells
it. A TOML parser would be exact, but takes quadratic time for a key of many parts, and this runs on the host."""
MODULE_SUFFIXES = (".py", ".pyc", ".so")
"""Endings of the files that Python imports. An extension module may have a tag before its ending: ``x.abi3.so``."""
MODULES = frozenset(sys.stdlib_module_names) | {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "py"}
COMMANDS = words(
    "sh bash dash env python python3 pytest py.test git make cat ls sed grep awk diff find sort head tail test"
)
CACHES = frozenset({"__pycache__", ".pytest_cache"})
UNCHECKED = b"\x01\x00\x00\x00"
"""The flags of a `.pyc` file that runs without a check against its source."""


@dataclass(frozen=True, slots=True)
class SanitizedFiles:
    """The tree to grade, the tampering found, and what is not graded though it is no tampering."""

    files: Tree
    tamper: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def sanitize(task: CodeTask, left: Files) -> SanitizedFiles:
    """Return the submitted tree without forbidden entries, and one line per forbidden entry."""
    pristine, submitted = task.workspace, Tree.of(left)
    entries, refused = dict[str, Entry](), set[str]()
    tamper, left_out = list[str](), set[str]()
    scripts = _scripts_of_grading(task)
    packages = _packages(submitted)
    for path, entry in submitted.entries.items():
        before = pristine.entries.get(path)
        if before is not None and before.equals(entry):
            entries[path] = entry
        elif dropped := _dropped(path, pristine):
            left_out.add(f"not graded: {dropped}")
            if reason := forbidden(path, submitted.get(path, b""), submitted, pristine):
                tamper.append(f"{reason}: {path}")
        elif entry.kind is Kind.FOLDER:
            instead = before is not None and _fixed(task, path)
            if not instead and (path not in pristine.folders or not _protected(task, path)):
                entries[path] = entry
        elif entry.kind is Kind.LOST:
            # No sandbox gets it, and a check of files must know of it.
            if path not in pristine.entries:
                entries[path] = entry
        else:
            # A path that does not look like itself: it is not text, or a name begins or ends with a blank.
            if not path.isprintable() or any(name != name.strip() for name in path.split("/")):
                tamper.append(f"odd name: {path}")
            reason = _protected(task, path) or _forbidden_entry(path, submitted, pristine, scripts, packages)
            if reason:
                refused.add(path)
                tamper.append(f"{reason}: {path}")
            else:
                entries[path] = entry
    fixed = {path for path in pristine.entries if path not in entries and path not in refused and _fixed(task, path)}
    restored = {path: entry for path, entry in pristine.entries.items() if path in refused | fixed}
    tamper += [f"removed: {path}" for path in restored if path in fixed]
    kept = {path: entry for path, entry in entries.items() if restored.keys().isdisjoint((path, *parents(path)))}
    graded = changed(Tree(kept), Tree(restored))
    return SanitizedFiles(graded, tuple(_encodable(tamper)), tuple(_encodable(sorted(left_out))))


def _packages(tree: Tree) -> dict[PurePosixPath, str]:
    """Return the name of the file or link that makes a folder a package, by folder."""
    paths = [PurePosixPath(path) for path, entry in tree.entries.items() if entry.kind is not Kind.FOLDER]
    markers = [path for path in paths if path.name.startswith("__init__.") and path.name.endswith(MODULE_SUFFIXES)]
    return {path.parent: path.name for path in markers}


def _fixed(task: CodeTask, path: str) -> bool:
    """Return whether an initial file or link is protected, or would be forbidden if the agent had made it."""
    pristine = task.workspace
    if pristine.entries[path].kind is Kind.FOLDER:
        return False
    return bool(_protected(task, path) or forbidden(path, pristine.get(path, b""), pristine, pristine))


def _forbidden_entry(
    path: str, tree: Tree, pristine: Tree, scripts: frozenset[str], packages: Mapping[PurePosixPath, str]
) -> str:
    """Return why a new or changed file or link is forbidden; a link counts as that to which it leads.

    A link that leads to no entry of ``tree`` counts as a package, too: in a sandbox it may lead back to one, as
    ``/proc/self/cwd/pkg``. ``packages`` are those of ``tree``.
    """
    content, names = tree.get(path, b""), [path]
    if tree.entries[path].kind is Kind.LINK:
        target = tree.target(path, WORKSPACE)
        if PurePosixPath(path).name in (*SECTIONS, "pyproject.toml") and target not in tree:
            return "configuration of the test runner"
        content = tree.get(target or "", b"")
        # A link to a package is a package, whatever its name ends with.
        if target is None:
            names.append(f"{path}/__init__.py")
        elif marker := packages.get(PurePosixPath(target)):
            names = [f"{path}/{marker}"]
    hides = any(_hides(name, scripts) for name in names if name not in pristine)
    reasons = (forbidden(name, content, tree, pristine) for name in names)
    return "replaces a module" if hides else next(filter(None, reasons), "")


def tampering_outside(tree: Tree) -> tuple[str, ...]:
    """Report what is forbidden outside the work folder, links and unreadable files too; nothing there is graded."""
    paths = [path for path, entry in tree.entries.items() if entry.kind is not Kind.FOLDER]
    found = [(path, forbidden(path, tree.get(path, b""), tree, {})) for path in paths]
    return tuple(_encodable(f"{reason}, outside the work folder: {path}" for path, reason in found if reason))


def forbidden(path: str, content: bytes, tree: Files, pristine: Files) -> str:
    """Return why a new or changed file is forbidden; empty if it is allowed.

    ``tree`` holds all files of the file's tree, ``pristine`` those that were there before the agent.
    """
    where = PurePosixPath(path)
    name = where.name
    if name in CONFIGURATION or name.endswith(".pth"):
        return "configuration of the interpreter or the test runner"
    if any(section in content for section in SECTIONS.get(name, ())):
        return "configuration of the test runner"
    if name == "pyproject.toml":
        return _toml_fault(content)
    if name in SHELL:
        return "configuration of the shell"
    if ".git" in where.parts[:-1] and where.parent.name == "hooks" and not name.endswith(".sample"):
        return "git hook"
    if name.endswith(".pyc") and ("__pycache__" not in where.parts or content[4:8] == UNCHECKED):
        return "compiled code without its source"
    if name in COMMANDS:
        return "replaces a command"
    return "replaces a module" if _replaces_module(where, tree, pristine) else ""


def _toml_fault(content: bytes) -> str:
    """Return why a ``pyproject.toml`` is forbidden, in linear time; empty if it certainly does not configure pytest."""
    if len(content) > MAX_TOML_BYTES:
        return "configuration that is too large"
    lowered = content.lower()
    return "configuration of the test runner" if any(mark in lowered for mark in TOML_MARKS) else ""


def _replaces_module(where: PurePosixPath, tree: Files, pristine: Files) -> bool:
    """Return whether Python may import the file in place of an installed module.

    Python takes the name of a module from the first component of the file's name (``json.abi3.so``). A module inside a
    package replaces nothing, but a folder of scripts does not become a package by an ``__init__`` that the agent adds.
    """
    if not where.name.endswith(MODULE_SUFFIXES) or where.parent.name == "__pycache__":
        return False
    module, folder = _module(where)
    if module not in MODULES:
        return False
    marker = str(folder / "__init__.py")
    inside = "" if folder == PurePosixPath() else str(folder)
    had_scripts = any(path.rpartition("/")[0] == inside for path in pristine)
    in_package = folder != PurePosixPath() and marker in (pristine if had_scripts else tree)
    return not in_package


def _module(where: PurePosixPath) -> tuple[str, PurePosixPath]:
    """Return the name of the module that a file defines, and the folder that it is imported from."""
    stem = where.name.partition(".")[0]
    return (where.parent.name, where.parent.parent) if stem == "__init__" else (stem, where.parent)


def _scripts_of_grading(task: CodeTask) -> frozenset[str]:
    """Return the paths, without ``.py``, of the Python files that grading puts in place."""
    fixed = [path for path in task.workspace if _protected(task, path)]
    written = [path for case in task.cases for path in case.files]
    return frozenset(path.removesuffix(".py") for path in (*fixed, *written) if path.endswith(".py"))


def _hides(path: str, scripts: frozenset[str]) -> bool:
    """Return whether Python imports the file in place of one of the scripts."""
    if not path.endswith(MODULE_SUFFIXES):
        return False
    module, folder = _module(PurePosixPath(path))
    script = str(folder / module)
    return script in scripts and path != f"{script}.py"


def _protected(task: CodeTask, path: str) -> str:
    return "protected" if is_protected(path, task.protected) else ""


def _dropped(path: str, pristine: Tree) -> str:
    """Return the folder of git history or of a cache that a new or changed path is in; empty if it is in none.

    A cache of compiled code could differ from its source. History that the task began with is graded.
    """
    if CACHES.isdisjoint(parts := path.split("/")) and ".git" not in parts:
        return ""
    for folder in (path, *parents(path)):
        name = folder.rpartition("/")[2]
        if name in CACHES or (name == ".git" and folder not in pristine.folders):
            return folder
    return ""


def _encodable(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (line.encode("utf-8", "replace").decode()[:200] for line in lines)
