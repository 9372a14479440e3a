"""Grade submitted files in a fresh sandbox.

The sandbox is leased for one grading and contains the pristine files, overwritten by the submitted files that
``forbidden`` allows. A failed lease raises. A submission that breaks the sandbox fails the check.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic

from .....sandbox import Entry, FileError, SandboxLease, Tree
from .....sandbox.sandbox import WORKSPACE
from ..deadlines import end_of_step, left
from ..fresh_sandbox import FILE_TIMEOUT_S, in_fresh_sandbox
from ..task import CodeTask, Files
from . import Verdict
from .forbidden import sanitize
from .pytest_host import run_tests
from .running import LIST, LIST_TIMEOUT_S, left_running
from .tampering import aimed_at_grader

OUTPUT_KIB = 64
CASES = "cases"
"""Purpose of the sandboxes that run cases."""
BROKE = "broke the sandbox it was judged in"


def grade(task: CodeTask, left_files: Files, until: float | None = None) -> Verdict:
    """Grade the submitted files.

    A check that code without an answer passes, such as a case that expects an exception, counts only if every other
    check passes: else the share would rise for a program that does nothing.

    Args:
        until: when the grading must end, on the monotonic clock; by default, in the time of a step.

    Raises:
        SandboxError: no sandbox can be leased, or its host is lost.
    """
    until = until or end_of_step(math.inf)
    sanitized = sanitize(task, left_files)
    files, tamper = sanitized.files, [*sanitized.tamper, *aimed_at_grader(sanitized.files, task.workspace)]
    held = [check.passes(files) for check in task.file_checks]
    guessable = [False] * len(task.file_checks) + [case.guessable for case in task.cases]
    timed_out = False
    if monotonic() >= until:
        # The agent left files that take long to read. A lease would end after the step and count as a failed sandbox.
        return Verdict(0, max(1, len(guessable)), tuple(dict.fromkeys(tamper)), True, sanitized.left_out)
    if task.cases:
        first = until - (left(until) / 2 if task.tests else 0.0)
        run = in_fresh_sandbox(task.spec, CASES, lambda box, end: _run_cases(box, task, files, end), first)
        held += [run is not None and number in run.passed for number in range(len(task.cases))]
        tamper += run.tamper if run else [BROKE]
        timed_out = run is None or run.timed_out
    if task.tests:
        results = run_tests(task, files, until)
        held += [number < results.passed for number in range(results.total)]
        guessable += [False] * results.total
        tamper += results.tamper
        timed_out |= results.timed_out
    return Verdict(counted(held, guessable), len(held), tuple(dict.fromkeys(tamper)), timed_out, sanitized.left_out)


def counted(held: Sequence[bool], guessable: Sequence[bool]) -> int:
    """Return the number of passing checks that count: the guessable ones only if every other check passes.

    If every check is guessable, none counts unless all pass.
    """
    answers = [passes for passes, is_guess in zip(held, guessable, strict=True) if not is_guess]
    guesses = [passes for passes, is_guess in zip(held, guessable, strict=True) if is_guess]
    if not all(answers):
        return sum(answers)
    return sum(answers) + sum(guesses) if answers or all(guesses) else 0


@dataclass(slots=True)
class _CaseRun:
    passed: set[int] = field(default_factory=set)
    """Numbers of the cases that pass."""
    tamper: list[str] = field(default_factory=list)
    timed_out: bool = False


def with_case_files(files: Tree, given: Files) -> Tree:
    """Return a submission with the files of a case, in the folders to which links of the submission lead.

    One tree holds both, because folders get their modes last, and one of them may be read-only.
    """
    placed = dict[str, Entry]()
    for path, content in given.items():
        folder, _, name = path.rpartition("/")
        folder = (files.target(folder, WORKSPACE) if folder else None) or folder
        placed[f"{folder}/{name}" if folder else name] = Entry.file(content)
    return Tree({**files.only(lambda path: path not in placed).entries, **placed})


def _run_cases(box: SandboxLease, task: CodeTask, files: Tree, until: float) -> _CaseRun:
    """Run the cases and return the result. The sandbox is reset between cases, and the first timeout ends the run."""
    run = _CaseRun()
    for number, case in enumerate(task.cases):
        if number:
            box.reset(timeout_s=left(until, FILE_TIMEOUT_S))
        try:
            box.write_tree(".", with_case_files(files, case.files), timeout_s=left(until, FILE_TIMEOUT_S))
        except FileError as error:  # a submitted entry is in the way
            run.tamper.append(f"cannot be put in place: {error}"[:200])
            break
        seconds = left(until, task.case_seconds)
        done = box.exec(case.argv, timeout_s=seconds, stdin=case.stdin, output_kib=OUTPUT_KIB)
        if done.timed_out or monotonic() >= until:
            run.timed_out = True
            break
        if not done.output_limit_exceeded and case.passes(done.exit_code, done.stdout):
            run.passed.add(number)
            continue
        if seen := case.tampering(done.exit_code, done.stdout, done.stderr):
            run.tamper.append(seen)
        if number == len(run.passed):
            # The processes that outlive the first case that fails.
            names = left_running(box.exec(LIST, timeout_s=left(until, LIST_TIMEOUT_S)).stdout)
            run.tamper += [f"left running in its grading: {names}"] if names else []
    return run
