"""Grade submitted files in a fresh sandbox.

The sandbox is leased for one grading and contains the pristine files, overwritten by the submitted files that
``forbidden`` allows. A failed lease raises. A submission that breaks the sandbox fails the check.
"""

from dataclasses import dataclass
from time import monotonic

from ....sandbox import FileError, SandboxLease
from ..fresh_sandbox import FILE_TIMEOUT_S, in_fresh_sandbox, write_files
from ..task import CodeTask, Files
from .forbidden import sanitize
from .pytest_host import run_tests

OUTPUT_KIB = 64
BROKE = "broke the sandbox it was judged in"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The number of passing checks, the total, and the tampering found."""

    passed: int
    total: int
    tamper: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Return whether every check passes."""
        return self.passed == self.total > 0

    @property
    def share(self) -> float:
        """Return the share of passing checks, 0 to 1."""
        return self.passed / self.total if self.total else 0.0


def grade(task: CodeTask, left: Files) -> Verdict:
    """Grade the submitted files.

    Raises:
        SandboxError: no sandbox can be leased, or its host is lost.
    """
    sanitized = sanitize(task, left)
    held = [check.passes(sanitized.files) for check in task.file_checks]
    passed, total, tamper = sum(held), len(held) + len(task.cases), list(sanitized.tamper)
    if task.cases:
        right, seen = in_fresh_sandbox(task.spec, lambda box, until: _run_cases(box, task, sanitized.files, until)) or (
            0,
            [BROKE],
        )
        passed += right
        tamper += seen
    if task.tests:
        results = run_tests(task, sanitized.files)
        passed, total = passed + results.passed, total + results.total
        tamper += results.tamper
    return Verdict(passed, total, tuple(dict.fromkeys(tamper)))


def _write_submission(box: SandboxLease, files: Files, tamper: list[str]) -> bool:
    """Write the files and return whether that worked; it fails if a submitted file takes the path of a folder."""
    try:
        write_files(box, files)
    except FileError as error:
        tamper.append(f"cannot be put in place: {error}"[:200])
        return False
    return True


def _run_cases(box: SandboxLease, task: CodeTask, files: Files, until: float) -> tuple[int, list[str]]:
    """Return the number of passing cases and the tampering found. The sandbox is reset between cases, and the first
    timeout ends the run.
    """
    passed, tamper = 0, list[str]()
    for number, case in enumerate(task.cases):
        if number:
            box.reset(timeout_s=FILE_TIMEOUT_S)
        if not _write_submission(box, {**files, **case.files}, tamper):
            break
        seconds = max(0.1, min(task.case_seconds, until - monotonic()))
        done = box.exec(case.argv, timeout_s=seconds, stdin=case.stdin, output_kib=OUTPUT_KIB)
        if done.timed_out:
            break
        if not done.output_limit_exceeded and case.passes(done.exit_code, done.stdout):
            passed += 1
        elif seen := case.tampering(done.exit_code, done.stdout + b"\n" + done.stderr):
            tamper.append(seen)
    return passed, tamper
