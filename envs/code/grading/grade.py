"""What the files an agent left are worth, found out in a fresh sandbox.

The sandbox is leased for one grading and holds the pristine files under those of the agent that ``forbidden`` lets
through. A failure to lease it is the world's, and raised; whatever the agent's files do, be it to the sandbox itself,
is a check that does not pass.
"""

import re
from dataclasses import dataclass
from time import monotonic

from ....sandbox import FileError, SandboxLease
from ..fresh_sandbox import FILE_SECONDS, judged, put
from ..task import CodeTask, Files
from .forbidden import sift
from .pytest_host import run_tests

OUTPUT_KIB = 64
BROKE = "broke the sandbox it was judged in"
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


def grade(task: CodeTask, left: Files) -> Verdict:
    """Judge the files that were left.

    Raises:
        SandboxError: the world failed.
    """
    sifted = sift(task, left)
    passed, total, tamper = 0, len(task.cases), list(sifted.tamper)
    if task.cases:
        held, seen = judged(task.spec, lambda box, until: _run_cases(box, task, sifted.files, until)) or (0, [BROKE])
        passed += held
        tamper += seen
    if task.tests:
        results = run_tests(task, sifted.files)
        passed, total = passed + results.passed, total + results.total
        tamper += results.tamper
    return Verdict(passed, total, tuple(dict.fromkeys(tamper)))


def _placed(box: SandboxLease, files: Files, tamper: list[str]) -> bool:
    """Whether the files could be put beside one another; if not, the agent left a file where a folder belongs."""
    try:
        put(box, files)
    except FileError as error:
        tamper.append(f"cannot be put in place: {error}"[:200])
        return False
    return True


def _run_cases(box: SandboxLease, task: CodeTask, files: Files, until: float) -> tuple[int, list[str]]:
    """How many hold, and what was done beside the task; after one that overruns its time none is tried. What one
    leaves behind no other finds.
    """
    passed, tamper = 0, list[str]()
    for number, case in enumerate(task.cases):
        if number:
            box.reset(timeout_s=FILE_SECONDS)
        if not _placed(box, {**files, **case.files}, tamper):
            break
        seconds = max(0.1, min(task.case_seconds, until - monotonic()))
        done = box.exec(case.argv, timeout_s=seconds, stdin=case.stdin, output_kib=OUTPUT_KIB)
        if done.timed_out:
            break
        if not done.output_limit_exceeded and case.max_duration_s(done.exit_code, done.stdout):
            passed += 1
        elif VERDICT.search(done.stdout + b"\n" + done.stderr) and not VERDICT.search(case.stdout):
            tamper.append("printed a verdict of its own")
    return passed, tamper
