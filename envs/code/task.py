"""One task: the instruction, the initial files, and the checks of the submitted files.

A task has cases, file checks, hidden tests, or several of these:

* A case runs the submitted code in a sandbox; the host compares the answer, and the expected answer never enters a
  sandbox. A ``CallCase`` calls a function, a ``Case`` runs a command.
* A file check reads the submitted files on the host.
* Hidden ``tests`` are pytest files that run in one process with the code under test. That code can forge their
  verdict, so no run trains on them unless the task is ``trusted``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...sandbox import SandboxSpec
from .checks.answers import FORGED_VERDICT, case_fault, cases_fault, guesses, scripts_of
from .checks.calls import CallCase
from .checks.file_checks import FileCheck

Files: TypeAlias = Mapping[str, bytes]
"""Content by path relative to the work folder."""
Change: TypeAlias = Mapping[str, bytes | None]
"""New content by path; None removes the file."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command on the submitted files. Trailing white space of the output is ignored.

    Raises:
        ValueError: the case compares no answer.
    """

    argv: tuple[str, ...]
    stdout: bytes
    """The expected output: an answer that the code under test cannot guess."""
    stdin: bytes = b""
    exit_code: int = 0
    files: Files = field(default_factory=dict)
    """Files written before the command runs; they overwrite submitted files."""

    def __post_init__(self) -> None:
        """Check that the case compares an answer."""
        if fault := case_fault(self.argv, self.stdout, self.files):
            raise ValueError(fault)

    @property
    def source(self) -> str:
        """Return the command, as text."""
        return " ".join(self.argv)

    @property
    def scripts(self) -> list[str]:
        """Return the command and the scripts that are written before it."""
        return scripts_of(self.argv, self.files)

    @property
    def expected(self) -> str:
        """Return the expected output."""
        return self.stdout.decode(errors="replace")

    @property
    def guesses(self) -> frozenset[str] | None:
        """Return the expected output if it can be guessed; None if it is an answer."""
        return guesses(self.stdout)

    def passes(self, exit_code: int, stdout: bytes) -> bool:
        """Return whether this exit code and output pass the case."""
        return exit_code == self.exit_code and _stripped(stdout) == _stripped(self.stdout)

    def tampering(self, exit_code: int, stdout: bytes, stderr: bytes) -> str:
        """Return the tampering that the output of a case that failed shows; empty if it shows none."""
        output = stdout + b"\n" + stderr
        forged = FORGED_VERDICT.search(output) and not FORGED_VERDICT.search(self.stdout)
        return "printed a forged verdict" if forged else ""


@dataclass(frozen=True, slots=True)
class CodeTask:
    """One instance. Equal tasks are the same instance.

    Raises:
        ValueError: the cases together prove nothing.
    """

    name: str
    instruction: str
    workspace: Files
    cases: tuple[Case | CallCase, ...] = ()
    file_checks: tuple[FileCheck, ...] = ()
    tests: Files = field(default_factory=dict)
    """Hidden pytest files, by path relative to their own folder."""
    trusted: bool = False
    """Whether the code under test is harmless, so that a run may train on the verdict of hidden tests."""
    protected: tuple[str, ...] = ()
    """Patterns of paths that the agent must not change; its changes to them are reverted before grading."""
    solution: Change | None = None
    """A change that makes every check pass; None if the task has no solution."""
    mutations: Mapping[str, Change] = field(default_factory=dict)
    """Wrong solutions by the name of their fault; each must fail a check."""
    spec: SandboxSpec = field(default_factory=SandboxSpec)
    command_seconds: float = 10.0
    """Timeout of one agent command."""
    case_seconds: float = 5.0
    """Timeout of one case. All hidden tests together have ten times this, and at most 40 % of a step."""

    def __post_init__(self) -> None:
        """Check that the cases compare answers."""
        if fault := cases_fault(self.cases, self.workspace, self.protected):
            raise ValueError(fault)


def changed(files: Files, change: Change) -> dict[str, bytes]:
    """Return the files after a change."""
    after = {path: content for path, content in files.items() if change.get(path, b"") is not None}
    return after | {path: content for path, content in change.items() if content is not None}


def _stripped(output: bytes) -> list[bytes]:
    return [line.rstrip() for line in output.rstrip().split(b"\n")]
