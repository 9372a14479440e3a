"""One task: the instruction, the initial files, and the checks of the submitted files.

A task has cases, hidden tests, or both. A ``Case`` is a command whose exit status and output are compared on the host,
so that the code under test cannot read the expected output. Hidden ``tests`` are pytest files that run in one process
with that code: more convenient and less strict (``grading.pytest_host`` lists the countermeasures).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...sandbox import SandboxSpec

Files: TypeAlias = Mapping[str, bytes]
"""Content by path relative to the work folder."""
Change: TypeAlias = Mapping[str, bytes | None]
"""New content by path; None removes the file."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command on the submitted files. Trailing white space of the output is ignored."""

    argv: tuple[str, ...]
    stdout: bytes
    """The expected output."""
    stdin: bytes = b""
    exit_code: int = 0
    files: Files = field(default_factory=dict)
    """Files written before the command runs; they overwrite submitted files."""

    def passes(self, exit_code: int, stdout: bytes) -> bool:
        """Return whether this exit code and output pass the case."""
        return exit_code == self.exit_code and _stripped(stdout) == _stripped(self.stdout)


@dataclass(frozen=True, slots=True)
class CodeTask:
    """One instance. Equal tasks are the same instance."""

    name: str
    instruction: str
    workspace: Files
    cases: tuple[Case, ...] = ()
    tests: Files = field(default_factory=dict)
    """Hidden pytest files, by path relative to their own folder."""
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
    """Timeout of one case. All hidden tests together have ten times this, at most 20 s."""


def changed(files: Files, change: Change) -> dict[str, bytes]:
    """Return the files after a change."""
    after = {path: content for path, content in files.items() if change.get(path, b"") is not None}
    return after | {path: content for path, content in change.items() if content is not None}


def _stripped(output: bytes) -> list[bytes]:
    return [line.rstrip() for line in output.rstrip().splitlines()]
