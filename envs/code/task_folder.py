"""Load tasks from folders, so that a custom task needs no Python.

    my-task/
      task.toml       the instruction, the limits, the cases
      workspace/      the initial files of the agent
      tests/          optional: hidden pytest files, for evaluation; to train on them, set `trusted = true`
      solution/       optional: files that replace workspace files and make every check pass

A folder of such folders is a set of tasks. Files are read on demand; errors name the file and the key.
"""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...sandbox import SandboxSpec
from ...user_files import UnreadableFile, read_toml
from ..errors import EnvError
from .checks.calls import CallCase
from .task import Case, CodeTask

MANIFEST = "task.toml"
MAX_TREE_BYTES = 8 << 20


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

    instruction: str = Field(min_length=1)
    image: str = "code"
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
    tests = read_tree(folder / "tests")
    if not tests and not manifest.case:
        raise BadTask(f"{folder}: the task has no checks; add a `[[case]]` to {MANIFEST}, or tests/test_*.py")
    if not (folder / "workspace").is_dir():
        raise BadTask(f"{folder}: no folder workspace/; create it with the initial files of the agent")
    limits = manifest.limits
    try:
        spec = SandboxSpec(
            image=manifest.image,
            memory_mib=limits.memory_mib,
            cpus=limits.cpus,
            pids=limits.pids,
            disk_mib=limits.disk_mib,
        )
    except ValidationError as error:
        raise BadTask(f"{folder / MANIFEST}: limits: {error.errors()[0]['msg']}") from None
    cases = tuple(_case(folder, number, table) for number, table in enumerate(manifest.case))
    try:
        task = CodeTask(
            name=folder.name,
            instruction=manifest.instruction.strip(),
            workspace=read_tree(folder / "workspace"),
            cases=cases,
            tests=tests,
            trusted=manifest.trusted,
            protected=tuple(manifest.protected),
            solution=read_tree(folder / "solution") or None,
            spec=spec,
            command_seconds=limits.command_seconds,
            case_seconds=limits.case_seconds,
        )
        task.check_cases()
    except ValueError as error:
        raise BadTask(f"{folder / MANIFEST}: {error}") from None
    return task, manifest.split


def find(folder: Path, split: str) -> tuple[Path, ...]:
    """Return the task folders of a split: ``folder`` itself or its children, sorted by name.

    Raises:
        BadTask: no folder has the split, or a manifest is invalid.
    """
    here = [folder] if (folder / MANIFEST).is_file() else sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    if not here:
        raise BadTask(
            f"{folder} holds no {MANIFEST}, and none of its folders does: it is neither a task nor a set of tasks"
        )
    chosen = tuple(path for path in here if _manifest(path / MANIFEST).split in (split, "both"))
    if not chosen:
        raise BadTask(f'{folder}: no task has the split {split!r}; set `split = "{split}"` in a {MANIFEST}')
    return chosen


def has_forgeable_tests(folder: Path) -> bool:
    """Return whether the task of a folder has hidden tests and is not ``trusted``.

    Raises:
        BadTask: the manifest is invalid.
    """
    return not _manifest(folder / MANIFEST).trusted and any(path.is_file() for path in folder.glob("tests/**/*"))


def read_tree(folder: Path) -> dict[str, bytes]:
    """Read every regular file below a folder, by path, without caches and ``.git``; empty if the folder does not exist.

    Raises:
        BadTask: the files exceed ``MAX_TREE_BYTES``.
    """
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not {"__pycache__", ".git"} & set(path.parts)
    }
    if sum(map(len, files.values())) > MAX_TREE_BYTES:
        raise BadTask(f"{folder} is more than {MAX_TREE_BYTES >> 20} MiB; put large files into an image and name it")
    return files


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
    return f"{where}: {each['msg']}"
