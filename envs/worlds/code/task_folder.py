"""Load tasks from folders, so that a custom task needs no Python.

    my-task/
      task.toml       the instruction, the limits, the cases
      workspace/      the initial files of the agent
      tests/          optional: hidden pytest files, for evaluation; to train on them, set `trusted = true`
      solution/       files that replace workspace files and make every check pass; optional for evaluation

A folder of such folders is a set of tasks. Files are read on demand; errors name the file and the key. ``workspace/``,
``tests/`` and ``solution/`` are kept as they are, with links, empty folders, modes, times and ``.git``.
"""

import os
import stat
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....base.user_files import UnreadableFile, read_toml
from ....errors import reason
from ....sandbox import Entry, Kind, SandboxSpec, Tree
from ....sandbox.sandbox import WORKSPACE
from ...errors import EnvError
from .checks.calls import CallCase
from .checks.protected import check_protected
from .task import Case, CodeTask, changed

MANIFEST = "task.toml"
KNOWN = (MANIFEST, "workspace", "tests", "solution")
"""Names that a task folder may hold; others are ignored unless they are nearly one of these."""
NEARLY = 0.85
"""Similarity of a misspelt name to a known one: `test` has 0.89, `solution.bak` 0.8."""
OWNER_OF_FILES, OWNER_OF_FOLDERS = 0o600, 0o700
"""Permissions that the owner of a read-only workspace gets."""
NEEDED_MODE = {Kind.FILE: stat.S_IRUSR, Kind.FOLDER: stat.S_IRUSR | stat.S_IXUSR}
"""Permissions without which the owner cannot read an entry."""
MAX_TREE_BYTES = 8 << 20
MAX_TREE_ENTRIES = 10_000


class BadTask(EnvError):
    """A task folder is invalid; the message names the file and the key."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseTable(_Strict):
    """``[[case]]``: a call or a command, and its expected result."""

    call: str = ""
    returns: str = ""
    raises: str = ""
    argv: list[str] = Field(default_factory=list)
    stdin: str = ""
    stdout: str = ""
    exit_code: int = 0
    files: dict[str, str] = Field(default_factory=dict)

    def case(self) -> Case | CallCase:
        """Return the case. Raises ValueError."""
        call_keys, command_keys = {"call", "returns", "raises"}, {"argv", "stdin", "stdout", "exit_code", "files"}
        given = self.model_fields_set
        if given & call_keys and given & command_keys:
            raise ValueError("a case has either `call` or `argv`, each with its own keys")
        if given & call_keys:
            return CallCase(self.call, self.returns, self.raises)
        if not self.argv:
            raise ValueError("a case needs `call` and `returns`, or `argv` and `stdout`")
        return Case(
            argv=tuple(self.argv),
            stdout=self.stdout.encode(),
            stdin=self.stdin.encode(),
            exit_code=self.exit_code,
            files={path: text.encode() for path, text in self.files.items()},
        )


class Limits(_Strict):
    """``[limits]`` of the agent's sandbox and the grading sandbox."""

    memory_mib: int = Field(256, ge=64)
    cpus: float = Field(1.0, gt=0)
    pids: int = Field(128, ge=8)
    disk_mib: int = Field(64, ge=1)
    command_seconds: float = Field(10.0, gt=0, le=600)
    case_seconds: float = Field(5.0, gt=0, le=600)


class Manifest(_Strict):
    """The content of ``task.toml``."""

    instruction: str = Field(pattern=r"\S")
    image: str = Field("code", pattern=r"^\S+$")
    split: Literal["train", "test", "both"] = "both"
    protected: list[str] = Field(default_factory=list)
    trusted: bool = False
    limits: Limits = Field(default_factory=Limits)
    case: list[CaseTable] = Field(default_factory=list)


def load(folder: Path) -> tuple[CodeTask, str]:
    """Load the task of a folder and its split.

    Raises:
        BadTask: a file or key is missing, unknown or of the wrong type.
    """
    manifest = _manifest(folder / MANIFEST)
    _check_names(folder)
    tests = _optional_tree(folder / "tests")
    for path, entry in tests.entries.items():
        if entry.kind is Kind.LINK and (entry.text.startswith("/") or tests.target(path, "/tests") is None):
            raise BadTask(
                f"{folder / 'tests' / path} is a link to `{entry.text}`, which is not in tests/, and the sandbox gets "
                "tests/ alone; put a copy in its place"
            )
    if not tests.entries and not manifest.case:
        raise BadTask(f"{folder}: the task has no checks; add a `[[case]]` to {MANIFEST}, or tests/test_*.py")
    if not os.path.lexists(folder / "workspace"):
        raise BadTask(f"{folder}: no folder workspace/; create it with the initial files of the agent")
    workspace, solution, limits = read_tree(folder / "workspace"), _optional_tree(folder / "solution"), manifest.limits
    solved = changed(workspace, solution)
    for path, entry in solution.entries.items():
        if entry.kind is Kind.LINK and solved.leaves(path, WORKSPACE):
            raise BadTask(
                f"{folder / 'solution' / path} is a link to `{entry.text}`, which is not in the workspace, and the "
                "sandbox gets nothing else: put a copy in its place"
            )
    try:
        spec = SandboxSpec(image=manifest.image, **limits.model_dump(exclude={"command_seconds", "case_seconds"}))
    except ValidationError as error:
        raise BadTask(f"{folder / MANIFEST}: limits: {reason(error.errors()[0])}") from None
    cases = tuple(_case(folder, number, table) for number, table in enumerate(manifest.case))
    try:
        task = CodeTask(
            name=folder.name,
            instruction=manifest.instruction.strip(),
            workspace=workspace,
            cases=cases,
            tests=tests,
            trusted=manifest.trusted,
            protected=tuple(manifest.protected),
            solution=solution if solution.entries else None,
            spec=spec,
            command_seconds=limits.command_seconds,
            case_seconds=limits.case_seconds,
        )
        check_protected(manifest.protected, task.workspace)
    except ValueError as error:
        raise BadTask(f"{folder / MANIFEST}: {error}") from None
    return task, manifest.split


def _check_names(folder: Path) -> None:
    """Refuse a name next to the manifest that is nearly a known one, such as ``Tests`` or ``test``. Raises BadTask."""
    for name in sorted(path.name for path in _inside(folder)):
        spelt = name.strip().casefold().removesuffix(".py")
        meant = [] if name in KNOWN else get_close_matches(spelt, KNOWN, 1, NEARLY)
        if meant:
            written = MANIFEST if meant[0] == MANIFEST else f"{meant[0]}/"
            raise BadTask(f"{folder / name} is not read: did you mean `{written}`? Rename it, or move it elsewhere")


def _optional_tree(folder: Path) -> Tree:
    """Read a folder that may be missing, but not empty. Raises BadTask."""
    tree = read_tree(folder)
    if os.path.lexists(folder) and all(entry.kind is Kind.FOLDER for entry in tree.entries.values()):
        raise BadTask(f"{folder} holds no file; put its files there, or remove the folder if the task has none")
    return tree


def _inside(folder: Path) -> list[Path]:
    """Return what a folder holds. Raises BadTask."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise BadTask(f"{folder} cannot be read: {error.strerror}; correct its permissions") from None


def find(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the task folders of a split: ``folder`` itself or its children, sorted by name.

    Hidden folders, such as ``.ipynb_checkpoints``, are no tasks.

    Raises:
        BadTask: no folder has the split, a manifest is invalid, or a link to a task leads to nothing.
    """
    here = [folder] if _is_task(folder) else []
    if not here and folder.is_dir():
        here = [path for path in _inside(folder) if not path.name.startswith(".") and _is_task(path)]
    if not here:
        raise BadTask(
            f"{folder} holds no {MANIFEST}, and none of its folders does: it is neither a task nor a set of tasks"
        )
    chosen = tuple(path for path in here if _manifest(path / MANIFEST).split in (split, "both"))
    if not chosen:
        raise BadTask(f'{folder}: no task has the split {split!r}; set `split = "{split}"` in a {MANIFEST}')
    return chosen


def _is_task(path: Path) -> bool:
    """Return whether a path is a folder with a manifest. Raises BadTask: it holds nearly one, or leads to nothing."""
    if path.is_symlink() and not path.exists():
        raise BadTask(f"{path} is a link to `{path.readlink()}`, which does not exist; correct or remove it")
    if not path.is_dir() or os.path.lexists(path / MANIFEST):
        return path.is_dir()
    for inner in _inside(path):
        if inner.is_file() and get_close_matches(inner.name.strip().casefold(), [MANIFEST], 1, NEARLY):
            raise BadTask(f"{inner} is not read: did you mean `{MANIFEST}`? Rename it, or move it elsewhere")
    return False


def has_forgeable_tests(folder: Path) -> bool:
    """Return whether the task of a folder has hidden tests and is not ``trusted``.

    Raises:
        BadTask: the manifest is invalid.
    """
    links_and_files = (path for path in folder.glob("tests/**/*") if path.is_symlink() or not path.is_dir())
    return not _manifest(folder / MANIFEST).trusted and any(links_and_files)


def read_tree(folder: Path) -> Tree:
    """Read everything below a folder; no entry if the folder does not exist. Links are kept and not followed.

    In a folder of which nothing may be written, such as a read-only copy of a task, the owner may write everything:
    otherwise, the agent could not edit anything.

    Raises:
        BadTask: it is no folder, there are more than ``MAX_TREE_BYTES`` or ``MAX_TREE_ENTRIES``, or an entry is
            neither a file, a folder nor a link, or cannot be read.
    """
    entries, left = dict[str, Entry](), MAX_TREE_BYTES
    first = dict[tuple[int, int], str]()
    _check_is_folder(folder)
    try:
        names = _names(folder) if folder.is_dir() else []
    except OSError as error:
        raise BadTask(f"{folder} cannot be read: {error.strerror}; correct its permissions, or remove it") from None
    while names:
        name = names.pop()
        path = folder / name
        try:
            status = path.lstat()
            left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
            if left < 0 or len(entries) >= MAX_TREE_ENTRIES:
                raise BadTask(
                    f"{folder} is more than {MAX_TREE_BYTES >> 20} MiB or {MAX_TREE_ENTRIES} files; put large files "
                    "into an image and name it"
                )
            same_as = first.setdefault((status.st_dev, status.st_ino), name) if status.st_nlink > 1 else name
            entries[name] = entry = _entry(path, status, "" if same_as == name else same_as)
            if (needed := NEEDED_MODE.get(entry.kind, 0)) & ~entry.mode:
                raise BadTask(
                    f"{path} has the mode {entry.mode:04o}, so that its owner cannot read it in a sandbox, and no "
                    f"submission could hold it; run `chmod u+{'r' if needed == stat.S_IRUSR else 'rx'}` on it"
                )
            if stat.S_ISDIR(status.st_mode):
                names += [f"{name}/{inner}" for inner in _names(path)]
        except OSError as error:
            raise BadTask(f"{path} cannot be read: {error.strerror}; correct its permissions, or remove it") from None
    modes = [entry.mode for entry in entries.values() if entry.kind is not Kind.LINK]
    if modes and not any(mode & stat.S_IWUSR for mode in (folder.stat().st_mode, *modes)):
        bits = {Kind.FILE: OWNER_OF_FILES, Kind.FOLDER: OWNER_OF_FOLDERS}
        entries = {path: replace(entry, mode=entry.mode | bits.get(entry.kind, 0)) for path, entry in entries.items()}
    return Tree(entries)


def _check_is_folder(folder: Path) -> None:
    """Refuse what is in the place of a folder. Raises BadTask."""
    if not os.path.lexists(folder) or folder.is_dir():
        return
    if folder.is_symlink():
        raise BadTask(f"{folder} is a link to `{folder.readlink()}`, which is no folder; put a copy in its place")
    raise BadTask(
        f"{folder} is a file and not a folder (git writes a link as such a file where `core.symlinks` is off); put the "
        "folder in its place, or remove it"
    )


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, the first one last. Raises OSError."""
    return sorted((each.name for each in folder.iterdir()), reverse=True)


def _entry(path: Path, status: os.stat_result, same_as: str) -> Entry:
    """Return what is at a path. Raises OSError and BadTask."""
    mode, mtime_ns = stat.S_IMODE(status.st_mode), status.st_mtime_ns
    if stat.S_ISDIR(status.st_mode):
        return Entry(Kind.FOLDER, b"", mode, mtime_ns=mtime_ns)
    if stat.S_ISLNK(status.st_mode):
        return Entry(Kind.LINK, os.readlink(os.fsencode(path)))  # noqa: PTH115 - the link as written
    if stat.S_ISREG(status.st_mode):
        return Entry(Kind.FILE, path.read_bytes(), mode, same_as, mtime_ns)
    raise BadTask(f"{path} is neither a file, a folder nor a link, and no sandbox gets it; remove it")


def _case(folder: Path, number: int, table: CaseTable) -> Case | CallCase:
    try:
        return table.case()
    except ValueError as error:
        raise BadTask(f"{folder / MANIFEST}: case.{number}: {error}") from None


def _manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate(read_toml(path))
    except UnreadableFile as error:
        raise BadTask(str(error)) from error
    except ValidationError as error:
        raise BadTask(f"{path}: {'; '.join(_validation_message(each) for each in error.errors())}") from None


def _validation_message(each: Any) -> str:
    where = ".".join(str(part) for part in each["loc"])
    if each["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    if each["type"] == "string_pattern_mismatch":
        return (
            f"{where}: {each['input']!r} is empty or has white space inside" if where == "image" else f"{where}: empty"
        )
    return f"{where}: {reason(each)}"
