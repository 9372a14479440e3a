"""One task: the instruction, the initial files, and the checks of the submitted files.

A task has cases, file checks, hidden tests, or several of these:

* A case runs the submitted code in a sandbox; the host compares the answer, and the expected answer never enters a
  sandbox. A ``CallCase`` calls a function, a ``Case`` runs a command.
* A file check reads the submitted files on the host.
* Hidden ``tests`` are pytest files that run in one process with the code under test. That code can forge their
  verdict, so no run trains on them unless the task is ``trusted``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ....sandbox import Entry, Kind, SandboxSpec, Tree
from ....sandbox.sandbox import WORKSPACE
from ....sandbox.transport.tree import parents
from .checks.answers import FORGED_VERDICT, can_be_guessed, fault
from .checks.calls import CallCase
from .checks.file_checks import FileCheck
from .checks.questions import Question, command_question

Files: TypeAlias = Mapping[str, bytes]
"""Content by path relative to the work folder."""
Change: TypeAlias = Mapping[str, bytes | None]
"""New content by path; None removes the file."""


@dataclass(frozen=True, slots=True)
class Case:
    """One command on the submitted files. Trailing white space of the output is ignored."""

    argv: tuple[str, ...]
    stdout: bytes
    """The expected output: an answer that the code under test cannot guess."""
    stdin: bytes = b""
    exit_code: int = 0
    files: Files = field(default_factory=dict)
    """Files written before the command runs; they overwrite submitted files."""

    def question(self) -> Question:
        """Return the question of the case. Raises ValueError: it compares no answer that only the code can give."""
        return command_question(self.argv, self.stdin, self.files, self.stdout)

    @property
    def guessable(self) -> bool:
        """Return whether code without an answer can print the expected output."""
        return can_be_guessed(self.stdout)

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

    def check_cases(self) -> None:
        """Check that the cases compare answers that the agent can only give by a solution, unless it is ``trusted``.

        Raises:
            ValueError: they do not; the message names what to write instead.
        """
        if self.trusted:
            return
        solved = changed(self.workspace, self.solution or {})
        questions = list[Question]()
        for number, case in enumerate(self.cases):
            try:
                question = case.question()
            except ValueError as error:
                raise ValueError(f"case.{number}: {error}") from None
            places = tuple(solved.target(place, WORKSPACE) or place for place in question.places)
            questions.append(replace(question, places=places))
        added = {path: content for path, content in solved.items() if self.workspace.get(path) != content}
        if message := fault(questions, self.workspace, added, self.protected, self.instruction):
            raise ValueError(f"case: {message}")


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
