"""Load tasks from folders, so that a custom task needs no Python.

    my-task/
      task.toml       the instruction, the limits, the cases
      workspace/      the initial files of the agent
      tests/          hidden pytest files; or [[case]] tables in task.toml, or both
      solution/       optional: files that replace workspace files and make every check pass

A folder of such folders is a set of tasks. Files are read on demand; errors name the file and the key.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...sandbox import SandboxSpec
from ..errors import EnvError
from .task import Case, CodeTask

MANIFEST = "task.toml"
MAX_TREE_BYTES = 8 << 20


class BadTask(EnvError):
    """A task folder is invalid; the message names the file and the key."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseTable(_Strict):
    """``[[case]]``: a command and its expected result."""

    argv: list[str] = Field(min_length=1)
    stdin: str = ""
    stdout: str = ""
    exit_code: int = 0
    files: dict[str, str] = Field(default_factory=dict)


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
        raise BadTask(f"{folder}: the task has no checks; add tests/test_*.py, or a [[case]] to {MANIFEST}")
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
    task = CodeTask(
        name=folder.name,
        instruction=manifest.instruction.strip(),
        workspace=read_tree(folder / "workspace"),
        cases=tuple(_case(table) for table in manifest.case),
        tests=tests,
        protected=tuple(manifest.protected),
        solution=read_tree(folder / "solution") or None,
        spec=spec,
        command_seconds=limits.command_seconds,
        case_seconds=limits.case_seconds,
    )
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


def _case(table: CaseTable) -> Case:
    return Case(
        argv=tuple(table.argv),
        stdout=table.stdout.encode(),
        stdin=table.stdin.encode(),
        exit_code=table.exit_code,
        files={path: text.encode() for path, text in table.files.items()},
    )


def _manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate(tomllib.loads(path.read_text()))
    except FileNotFoundError:
        raise BadTask(f"{path} does not exist") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadTask(f"{path}: {error}") from error
    except ValidationError as error:
        raise BadTask(f"{path}: {'; '.join(_validation_message(each) for each in error.errors())}") from None


def _validation_message(each: Any) -> str:
    where = ".".join(str(part) for part in each["loc"])
    if each["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    return f"{where}: {each['msg']}"
