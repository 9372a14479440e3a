"""What the files an agent left are worth, found out in a fresh sandbox.

The sandbox is leased for one grading and holds the pristine files under those of the agent that ``forbidden`` lets
through. A failure to lease it or to write pristine files is the world's, and raised; whatever the agent's files do is a
check that does not pass.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...sandbox import FileError, Leased, SandboxSpec, lease
from .forbidden import sift
from .hidden_tests import run_tests
from .task import CodeTask, Files

LEASE_SECONDS = 15.0
"""Shorter than any environment's deadline: where there is no sandbox, that is what is told."""
FILE_SECONDS = 10.0
OUTPUT_KIB = 64
VERDICT = re.compile(rb"^[^\w\n]{0,20}(\d+ passed|all tests pass|pass(ed)?|ok)\b[^\n]*$", re.IGNORECASE | re.MULTILINE)
"""What a program may print in the hope that someone reads it as a verdict."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many checks pass, of how many, and what was done beside the task."""

    passed: int
    total: int
    tamper: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Whether all of them pass."""
        return self.passed == self.total > 0

    @property
    def share(self) -> float:
        """The part that passes, 0 to 1."""
        return self.passed / self.total if self.total else 0.0


def made_of(box: Leased) -> dict[str, Any]:
    """What to put on record of a sandbox: its image, as it was exactly."""
    return {"sandbox": {"image": box.spec.image, "digest": box.digest}}


def open_box(spec: SandboxSpec, files: Files) -> Leased:
    """A fresh sandbox with these files in its work folder.

    Raises:
        SandboxError: the world failed; nothing is held then.
    """
    box = lease(spec, deadline=LEASE_SECONDS)
    try:
        put(box, files)
    except BaseException:
        box.give_back()
        raise
    return box


def put(box: Leased, files: Files) -> None:
    """Write files; those that begin with ``#!`` can be executed. Raises as ``Leased.write``."""
    scripts = {path: content for path, content in files.items() if content.startswith(b"#!")}
    plain: Mapping[str, bytes] = {path: content for path, content in files.items() if path not in scripts}
    if plain:
        box.write(plain, deadline=FILE_SECONDS)
    if scripts:
        box.write(scripts, deadline=FILE_SECONDS, executable=True)


def grade(task: CodeTask, left: Files) -> Verdict:
    """Judge the files that were left.

    Raises:
        SandboxError: the world failed.
    """
    sifted = sift(task, left)
    passed, total, tamper = 0, len(task.cases), list(sifted.tamper)
    if task.cases:
        with lease(task.spec, deadline=LEASE_SECONDS) as box:
            passed += _run_cases(box, task, sifted.files, tamper)
    if task.tests:
        results = run_tests(task, sifted.files)
        passed, total = passed + results.passed, total + results.total
        tamper += results.tamper
    return Verdict(passed, total, tuple(dict.fromkeys(tamper)))


def _placed(box: Leased, files: Files, tamper: list[str]) -> bool:
    """Whether the files could be put beside one another; if not, the agent left a file where a folder belongs."""
    try:
        put(box, files)
    except FileError as error:
        tamper.append(f"cannot be put in place: {error}"[:200])
        return False
    return True


def _run_cases(box: Leased, task: CodeTask, files: Files, tamper: list[str]) -> int:
    """How many hold; after one that overruns its time none is tried. What one leaves behind no other finds."""
    passed = 0
    for number, case in enumerate(task.cases):
        if number:
            box.reset(deadline=FILE_SECONDS)
        if not _placed(box, {**files, **case.files}, tamper):
            break
        done = box.exec(case.argv, deadline=task.case_seconds, stdin=case.stdin, output_kib=OUTPUT_KIB)
        if done.timed_out:
            break
        if not done.flooded and case.holds(done.exit_code, done.stdout):
            passed += 1
        elif VERDICT.search(done.stdout + b"\n" + done.stderr) and not VERDICT.search(case.stdout):
            tamper.append("printed a verdict of its own")
    return passed
