"""One task: the instruction, the initial files, and the checks of the submitted files.

A task has cases, file checks, hidden tests, or several of these:

* A case runs the submitted code in a sandbox; the host compares the answer, and the expected answer never enters a
  sandbox. A ``CallCase`` calls a function, a ``Case`` runs a command.
* A file check reads the submitted files on the host.
* Hidden ``tests`` are pytest files that run in one process with the code under test. That code can forge their
  verdict, so no run trains on them unless the task is ``trusted``.

A case is safe if the file that answers it, a program or the module of a function, is one that the solution changes. No
run trains on other cases unless the task is ``trusted``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ....sandbox import Entry, Kind, SandboxSpec, Tree
from ....sandbox.sandbox import WORKSPACE
from ....sandbox.transport.tree import parents
from ...draws import words
from .checks.calls import CallCase, modules
from .checks.file_checks import FileCheck
from .checks.protected import is_protected

Files: TypeAlias = Mapping[str, bytes]
"""Content by path relative to the work folder."""
Change: TypeAlias = Mapping[str, bytes | None]
"""New content by path; None removes the file."""
GUESS = re.compile(r"true|false|yes|no|\d", re.IGNORECASE)
"""A line that code prints without an answer."""
FORGED_VERDICT = re.compile(
    rb"^[^\w\n]{0,20}(\d+ passed|all tests pass|pass(ed)?|ok)\b[^\n]*$", re.IGNORECASE | re.MULTILINE
)
"""Output that imitates a verdict."""
INTERPRETERS = words("bash cat dash lua node perl php python python3 Rscript ruby sh")
"""Commands that run, or print, the file that follows."""
UNLESS = "or set `trusted = true` if the policy is harmless; or evaluate only, with `turnwise eval`"


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

    @property
    def places(self) -> tuple[str, ...]:
        """Return the paths that may hold the program; the last one that exists holds it."""
        command, first, second = (*self.argv, "", "")[:3]
        if command in ("python", "python3") and first == "-m":
            return modules(second.split("."), main=True)
        program = first if command in INTERPRETERS else command if "/" in command else ""
        return (program.removeprefix(f"{WORKSPACE}/"),)

    @property
    def guessable(self) -> bool:
        """Return whether code without an answer can print the expected output."""
        lines = (line.strip() for line in self.stdout.decode(errors="replace").splitlines())
        return all(GUESS.fullmatch(line) for line in lines if line)

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
    """One instance. Equal tasks are the same instance."""

    name: str
    instruction: str
    workspace: Tree
    cases: tuple[Case | CallCase, ...] = ()
    file_checks: tuple[FileCheck, ...] = ()
    tests: Tree = field(default_factory=lambda: Tree({}))
    """Hidden pytest files, by path relative to their own folder."""
    trusted: bool = False
    """Whether the code under test forges nothing, so that a run may train on hidden tests and on cases of any kind."""
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

    def forgeable_case(self) -> str:
        """Return the case that the code under test can forge, and what to write; empty if none, or if ``trusted``."""
        solved = changed(self.workspace, self.solution or {})
        written = {path for path, content in solved.items() if self.workspace.get(path) != content}
        for number, case in enumerate(() if self.trusted else self.cases):
            if isinstance(case, Case) and not case.stdout.strip():
                return f"case.{number}: the case compares no answer; print the answer and set `stdout`; {UNLESS}"
            files = changed(solved, case.files) if case.files else solved
            targets = [files.target(place, WORKSPACE) or "" for place in case.places]
            path = next((target for target in reversed(targets) if target in files), "")
            if path not in written or path in case.files or is_protected(path, self.protected):
                key = "`call` names no module" if isinstance(case, CallCase) else "`argv` runs no program"
                return (
                    f"case.{number}: {key} that solution/ changes and that the agent may change. Other code shares its "
                    "process with the code under test, which can forge its answer. Use `call` and `returns` with a "
                    f"function of a file in solution/; {UNLESS}"
                )
        return ""


def changed(tree: Tree, change: Change) -> Tree:
    """Return a tree after a change; a change that is a tree adds all of its entries.

    A replaced file keeps its mode. Files and links that are above a path of the change are removed, and so is all that
    is below a new file or link.
    """
    entries = dict(tree.entries)
    if isinstance(change, Tree):
        new = dict(change.entries)
    else:
        new = {path: _replaced(entries.get(path), content) for path, content in change.items() if content is not None}
        entries = {path: entry for path, entry in entries.items() if change.get(path, b"") is not None}
    for parent in {parent for path in new for parent in parents(path)}:
        if parent in entries and entries[parent].kind is not Kind.FOLDER:
            del entries[parent]
    ends = {path for path, entry in new.items() if entry.kind is not Kind.FOLDER}
    kept = {path: entry for path, entry in entries.items() if ends.isdisjoint(parents(path))}
    return Tree({**kept, **new})


def _replaced(before: Entry | None, content: bytes) -> Entry:
    new = Entry.file(content)
    return replace(new, mode=before.mode) if before is not None and before.kind is Kind.FILE else new


def _stripped(output: bytes) -> list[bytes]:
    return [line.rstrip() for line in output.rstrip().split(b"\n")]
