"""One task: what is asked, the files it begins with, and how what was left is judged.

A task is checked by cases, by hidden tests, or both. A ``Case`` is a command whose exit status and output are compared
here, on the host, so that the code under test can learn nothing that would help it; hidden ``tests`` are pytest files
that run beside that code, which is more convenient and less strict (``hidden_tests`` says what is done about it).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ...sandbox import SandboxSpec

Files: TypeAlias = Mapping[str, bytes]
"""Content by path relative to the work folder."""
Change: TypeAlias = Mapping[str, bytes | None]
"""What to write; None removes the file."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command on the files that were left. Trailing white space of its output does not count."""

    argv: tuple[str, ...]
    stdout: bytes
    """What it must print."""
    stdin: bytes = b""
    exit_code: int = 0
    files: Files = field(default_factory=dict)
    """Written before it runs, over whatever was left there."""

    def max_duration_s(self, exit_code: int, stdout: bytes) -> bool:
        """Whether a command that ended like this passes."""
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
    """Patterns of paths that are not the agent's to change: what it does to them is undone before grading."""
    solution: Change | None = None
    """What makes every check pass; None where nobody wrote it down."""
    mutations: Mapping[str, Change] = field(default_factory=dict)
    """Wrong solutions, by what is wrong with them; each must fail."""
    spec: SandboxSpec = field(default_factory=SandboxSpec)
    command_seconds: float = 10.0
    """For one command of the agent's."""
    case_seconds: float = 5.0
    """For one case; and ten times this for all hidden tests together, at most 20."""


def changed(files: Files, change: Change) -> dict[str, bytes]:
    """The files after a change."""
    after = {path: content for path, content in files.items() if change.get(path, b"") is not None}
    return after | {path: content for path, content in change.items() if content is not None}


def _stripped(output: bytes) -> list[bytes]:
    return [line.rstrip() for line in output.rstrip().splitlines()]
