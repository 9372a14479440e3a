"""Run hidden pytest files on submitted files, in a fresh sandbox.

A hidden test shares a process with the code under test. So that code can find the nonce and the expected values in the
frames that call it, read the test files, and forge the report: no run trains on hidden tests of a task that is not
``trusted``. Against code that does not aim at the grader there are countermeasures, in addition to the fresh sandbox:

* pytest starts isolated, without external configuration, and installed modules precede submitted ones on the path, so
  that a submitted file is read only if a test imports it (``pytest_guest``);
* the report is a line that begins with a nonce, and a process that exits early writes no report;
* the tests that ran must equal the tests collected once per task from the pristine tests, without submitted files;
  a task with a test that its author skips, or expects to fail, is refused, so that a skip is the submission's doing;
* a canary test, new in each run, must fail, so that a patch that makes every test pass is detected;
* the test files are compared after the run, and an audit hook reports submitted code that opens a test file.

Checks that hold against an adversary are cases: their expected output is in no sandbox.
"""

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from pathlib import Path
from time import monotonic
from typing import Self

from pydantic import BaseModel, ConfigDict

from .....sandbox import Entry, ExecResult, FileError, Kind, SandboxError, SandboxLease, Tree, lease
from ..deadlines import left
from ..fresh_sandbox import FILE_TIMEOUT_S, LEASE_TIMEOUT_S, in_fresh_sandbox
from ..task import CodeTask, changed
from . import Verdict, pytest_guest
from .pytest_guest import NO_PYTEST

TESTS = "tests"
"""Purpose of the sandboxes that hold hidden tests. The remains of a test reach other gradings at most, whose code
shares a sandbox with its own tests anyway, and never an agent."""
TESTS_TIMEOUT_MAX_S = 20.0
TESTS_TIMEOUT_CASES = 10
"""Timeout of all tests together, in multiples of the timeout of a case."""
VERIFY_TIMEOUT_S = 10.0
"""Timeout of the run that looks for tests without a verdict, once per task."""
MAX_CACHED_TASKS = 256
PASSED = "passed"
CANARY = """
def test_{name}():
    assert [1, 2, 3] == {wrong}
"""
_FORGED_REPORT = (
    "the tests ended without their report",
    "the report of the tests is not valid",
    "more reports than one",
)
"""Tampering by the number of reports, of which none is a single valid one."""
_known: "OrderedDict[str, frozenset[str]]" = OrderedDict()
_known_lock = threading.Lock()


class BrokenTests(SandboxError):
    """The tests of a task do not run on its pristine workspace: pytest is missing, or the tests are broken."""


class Report(BaseModel):
    """The outcome of one run of pytest, which the code under test may have written.

    That code can find the nonce and the descriptor of the report in the frames that call it. So whatever the report
    holds is the agent's doing: a report that does not parse is not a failure of the environment.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    collected: list[str]
    """Ids of the collected tests."""
    results: dict[str, str]
    """Worst outcome over the phases of each test, by id."""
    unfit: dict[str, str]
    """Reasons by the id of each test or file whose outcome is no verdict: skipped, expected to fail, not run."""
    errors: str
    """Texts of the test files that could not be imported."""
    tamper: list[str]
    interrupted: bool
    """Whether a KeyboardInterrupt ended the run."""

    @classmethod
    def parse(cls, line: bytes) -> Self | None:
        """Return the report of a line; None if it is not a report."""
        try:
            return cls.model_validate(json.loads(line))
        except (ValueError, RecursionError):
            return None


def reports(output: bytes, nonce: str) -> list[Report | None]:
    """Return the report of each line of ``output`` that begins with the nonce; None for a line that is not a report."""
    lines = (line for line in output.splitlines() if line.startswith(nonce.encode()))
    return [Report.parse(line[len(nonce) :]) for line in lines]


def run_tests(task: CodeTask, files: Tree, until: float) -> Verdict:
    """Run a task's hidden tests on files, until a monotonic time.

    Raises:
        BrokenTests: the tests cannot be collected.
        SandboxError: no sandbox can be leased, or its host is lost.
    """
    expected = prepare_tests(task)
    found = in_fresh_sandbox(task.spec, TESTS, lambda box, end: _run(box, task, files, expected, end), until)
    return found or Verdict(0, len(expected), ("broke the sandbox its tests ran in",), timed_out=True)


def _run(box: SandboxLease, task: CodeTask, files: Tree, expected: frozenset[str], until: float) -> Verdict:
    nonce, name = secrets.token_hex(16), f"t{secrets.token_hex(4)}"
    folder = _new_folder()
    canary = f"test_{name}.py"
    alarm_source = CANARY.format(name=name, wrong=[1, 2, secrets.randbelow(1000) + 4]).encode()
    hidden = changed(task.tests, {canary: alarm_source})
    box.write_tree(folder, hidden, timeout_s=left(until, FILE_TIMEOUT_S))
    try:
        box.write_tree(".", files, timeout_s=left(until, FILE_TIMEOUT_S))
    except FileError as error:
        return Verdict(0, len(expected), (f"cannot be put in place: {error}"[:200],))
    done = _pytest(box, folder, nonce, "run", task, until)
    tamper = _test_file_changes(box, folder, hidden, left(until, FILE_TIMEOUT_S))
    found = reports(done.stderr, nonce)
    report = found[0] if len(found) == 1 else None
    if report is None:
        if not done.timed_out and not done.output_limit_exceeded and (done.exit_code == 0 or found):
            tamper.append(_FORGED_REPORT[min(len(found), 2)])
        return Verdict(0, len(expected), tuple(tamper), done.timed_out)
    results = dict(report.results)
    tamper += report.tamper
    alarm = results.pop(f"{canary}::test_{name}", "missing")
    if alarm == PASSED:
        tamper.append("a test passed that must fail")
    passed = {test for test, how in results.items() if how == PASSED}
    # After an import error no test runs, and a KeyboardInterrupt ends the run. Otherwise every test runs unless the
    # submitted code suppressed it.
    ended_early = bool(report.errors or report.interrupted)
    silenced = "skipped" in results.values() or (not ended_early and bool(expected - set(results)))
    if silenced or set(results) - expected:
        tamper.append("other tests ran than there are")
    forged = bool(tamper) or alarm != "failed"
    return Verdict(0 if forged else len(passed & expected), len(expected), tuple(tamper))


def prepare_tests(task: CodeTask) -> frozenset[str]:
    """Return the ids of the tests, from the pristine workspace or, if its imports fail, with the solution applied.

    They are collected once per task, so that a later ``run_tests`` needs one sandbox only.

    Raises:
        BrokenTests: no test was found, collection failed, or a test can give no verdict.
        SandboxError: no sandbox can be leased, or its host is lost.
    """
    trees = [sorted(tree.entries.items()) for tree in (task.tests, task.workspace, _solved(task))]
    key = hashlib.sha256(repr([task.spec.image, trees]).encode()).hexdigest()
    with _known_lock:
        known = _known.get(key)
    if known is None:
        reason = ""
        for files in [task.workspace, *([_solved(task)] if task.solution else [])]:
            found, reason = _collect(task, files)
            if found:
                break
        else:
            raise BrokenTests(
                f"task {task.name}: its hidden tests cannot be collected on its pristine workspace; if they import "
                "code that the agent has to write, add a solution/ folder, or import inside the tests: "
                f"{reason or 'no test was found in a `test_*.py` or `*_test.py` of tests/'}"
            )
        if test_and_reason := _unfit(task, found):
            test, reason = test_and_reason
            raise BrokenTests(
                f"task {task.name}: its hidden test `{test}` cannot be graded: {reason}; remove or correct it"
            )
        with _known_lock:
            _known[key] = known = found
            while len(_known) > MAX_CACHED_TASKS:
                _known.popitem(last=False)
    return known


def _solved(task: CodeTask) -> Tree:
    return changed(task.workspace, task.solution or {})


def _collect(task: CodeTask, files: Tree) -> tuple[frozenset[str], str]:
    """Return the ids of the tests, or none and the reason."""
    done, report = _trusted(task, files, "collect", TESTS_TIMEOUT_MAX_S)
    if done.exit_code == NO_PYTEST and report is None:
        raise BrokenTests(
            f"task {task.name}: the sandbox's python3 has no pytest, which hidden tests need: install it in the image "
            f"`{task.spec.image}` of a Docker sandbox, or next to the python3 of a local one "
            f"({done.stderr.decode(errors='replace').strip()[-200:]})"
        )
    if report is None:
        return frozenset(), (done.stderr or done.stdout).decode(errors="replace")[-500:]
    if reasons := report.errors or "\n".join(f"{file}: {reason}" for file, reason in report.unfit.items()):
        return frozenset(), reasons[-500:]
    return frozenset(report.collected), ""


def _unfit(task: CodeTask, expected: frozenset[str]) -> tuple[str, str] | None:
    """Return a test that can give no verdict, and why: from a run on the solution, or else on the pristine workspace.

    A run that takes too long or ends early shows nothing.
    """
    _, report = _trusted(task, _solved(task), "run", VERIFY_TIMEOUT_S)
    if report is None or report.errors or report.interrupted:
        return None
    if report.unfit:
        return next(iter(report.unfit.items()))
    if odd := sorted(expected.symmetric_difference(report.collected)):
        return odd[-1], (
            "its id is not the same in each run, or depends on the agent's code: give its parameters fixed values or "
            "fixed `ids`"
        )
    missing = sorted(expected.difference(report.results))
    return (missing[0], "it does not run") if missing else None


def _trusted(task: CodeTask, files: Tree, mode: str, seconds: float) -> tuple[ExecResult, Report | None]:
    """Return the outcome of pytest on files of the author, and its report if there is one."""
    nonce, folder = secrets.token_hex(16), _new_folder()
    spec = task.spec.model_copy(update={"purpose": TESTS})
    with lease(spec, timeout_s=LEASE_TIMEOUT_S) as box:
        box.write_tree(folder, task.tests, timeout_s=FILE_TIMEOUT_S)
        box.write_tree(".", files, timeout_s=FILE_TIMEOUT_S)
        done = _pytest(box, folder, nonce, mode, task, monotonic() + seconds)
    return done, next((report for report in reports(done.stderr, nonce) if report is not None), None)


def _new_folder() -> str:
    """Return a path for the tests, whose name no code can guess and which can name a package."""
    return f"/tmp/t{secrets.token_hex(8)}"  # noqa: S108 - the sandbox's own


def _pytest(box: SandboxLease, folder: str, nonce: str, mode: str, task: CodeTask, until: float) -> ExecResult:
    script = Path(pytest_guest.__file__).read_text()
    request = json.dumps([nonce, folder, mode]).encode()
    seconds = left(until, min(TESTS_TIMEOUT_MAX_S, TESTS_TIMEOUT_CASES * task.case_seconds))
    return box.exec(["python3", "-I", "-c", script], timeout_s=seconds, stdin=request)


def _test_file_changes(box: SandboxLease, folder: str, hidden: Tree, timeout_s: float) -> list[str]:
    """Report changes to the test files, ignoring caches."""
    try:
        after = box.read_tree(folder, timeout_s=timeout_s)
    except FileError:
        return ["the tests were removed"]
    found, wanted = _compared(after), _compared(hidden)
    same = found.keys() == wanted.keys() and all(found[path].equals(entry) for path, entry in wanted.items())
    return [] if same else ["the tests were changed while they ran"]


def _compared(tree: Tree) -> dict[str, Entry]:
    """Return the entries of a tree by path, without its folders and caches."""
    entries = tree.entries.items()
    return {path: entry for path, entry in entries if entry.kind is not Kind.FOLDER and "__pycache__" not in path}
