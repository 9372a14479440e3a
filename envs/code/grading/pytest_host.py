"""Hidden pytest files, run on the files an agent left, in a fresh sandbox.

Such a test runs in one process with the code it tests, and so no report of it can be proof. What is done to make a
false one hard, beside that nothing of it can be prepared in the agent's own sandbox:

* pytest is started isolated, with no configuration but its own, and with only the installed modules ahead of the
  agent's, so that no file of the agent's is read unless a test imports it (``pytest_runner``);
* the verdict is a line that begins with a nonce, on a descriptor that is nobody's standard output; both are unknown to
  the code under test, and a process that ends early, however content it looks, has written none;
* the tests that ran must be exactly those that the pristine tests hold: found beforehand, with none of the agent's
  files near, and once per task;
* a canary among them, new each time, must fail, so that a patch by which everything passes is seen;
* the test files are compared afterwards, and opening one of them from the agent's code is noticed.

Against a determined adversary, use cases: their expectations are in no sandbox.
"""

import json
import secrets
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from ....sandbox import ExecResult, FileError, SandboxError, SandboxLease, lease
from ..fresh_sandbox import FILE_SECONDS, LEASE_SECONDS, judged
from ..task import CodeTask, Files, changed
from . import pytest_guest as pytest_runner

MOST_SECONDS = 20.0
CASES_LONG = 10
"""All tests together may take as long as this many cases."""
REMEMBERED = 256
PASSED = "passed"
CANARY = """
def test_{name}():
    assert [1, 2, 3] == {wrong}
"""
_known: "OrderedDict[int, frozenset[str]]" = OrderedDict()


class BrokenTests(SandboxError):
    """The tests of a task cannot be run where nobody has touched anything: pytest is missing, or they are broken."""


@dataclass(frozen=True, slots=True)
class Results:
    """How many tests passed, of how many there are, and what was done beside the task."""

    passed: int
    total: int
    tamper: tuple[str, ...] = ()


def run_tests(task: CodeTask, files: Files) -> Results:
    """Run a task's hidden tests on files.

    Raises:
        BrokenTests: they cannot be run at all.
        SandboxError: the world failed.
    """
    expected = _expected(task)
    found = judged(task.spec, lambda box, until: _run(box, task, files, expected, until))
    return found or Results(0, len(expected), ("broke the sandbox its tests ran in",))


def _run(box: SandboxLease, task: CodeTask, files: Files, expected: frozenset[str], until: float) -> Results:
    nonce, name = secrets.token_hex(16), f"t{secrets.token_hex(4)}"
    folder = f"/tmp/{secrets.token_hex(8)}"  # noqa: S108 - the sandbox's own
    canary = f"test_{name}.py"
    hidden = {**task.tests, canary: CANARY.format(name=name, wrong=[1, 2, secrets.randbelow(1000) + 4]).encode()}
    box.write({f"{folder}/{path}": content for path, content in hidden.items()}, timeout_s=FILE_SECONDS)
    try:
        box.write(files, timeout_s=FILE_SECONDS)
    except FileError as error:
        return Results(0, len(expected), (f"cannot be put in place: {error}"[:200],))
    done = _pytest(box, folder, nonce, "run", task, until)
    tamper = _touched(box, folder, hidden)
    reports = _reports(done, nonce)
    if len(reports) != 1:
        if not done.timed_out and not done.output_limit_exceeded and (done.exit_code == 0 or reports):
            tamper.append("the tests ended without their report" if not reports else "more reports than one")
        return Results(0, len(expected), tuple(tamper))
    results = {str(test): str(how) for test, how in reports[0]["results"].items()}
    tamper += [str(what) for what in reports[0]["tamper"]]
    alarm = results.pop(f"{canary}::test_{name}", "missing")
    if alarm == PASSED:
        tamper.append("a test passed that must fail")
    passed = {test for test, how in results.items() if how == PASSED}
    # Where a file cannot be imported nothing runs at all; otherwise every test does, unless something silenced it.
    silenced = "skipped" in results.values() or (not reports[0]["errors"] and bool(expected - set(results)))
    if silenced or set(results) - expected:
        tamper.append("other tests ran than there are")
    forged = bool(tamper) or alarm != "failed"
    return Results(0 if forged else len(passed & expected), len(expected), tuple(tamper))


def _expected(task: CodeTask) -> frozenset[str]:
    """The ids of the tests, from the pristine workspace, or with the solution in place where it takes one to import it.

    Raises:
        BrokenTests: there are none, or they cannot be collected.
    """
    key = hash(
        (frozenset(task.tests.items()), frozenset(task.workspace.items()), frozenset((task.solution or {}).items()))
    )
    if key not in _known:
        said = ""
        for files in [task.workspace, *([changed(task.workspace, task.solution)] if task.solution else [])]:
            found, said = _collect(task, files)
            if found:
                break
        else:
            raise BrokenTests(
                f"task {task.name}: its hidden tests cannot be collected on its pristine workspace; if they import "
                "what is still to be written, add a solution/ folder, or import inside the tests: "
                f"{said or 'no test was found'}"
            )
        _known[key] = found
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    return _known[key]


def _collect(task: CodeTask, files: Files) -> tuple[frozenset[str], str]:
    nonce, folder = secrets.token_hex(16), f"/tmp/{secrets.token_hex(8)}"  # noqa: S108 - the sandbox's own
    with lease(task.spec, timeout_s=LEASE_SECONDS) as box:
        box.write({f"{folder}/{path}": content for path, content in task.tests.items()}, timeout_s=FILE_SECONDS)
        box.write(files, timeout_s=FILE_SECONDS)
        done = _pytest(box, folder, nonce, "collect", task, monotonic() + MOST_SECONDS)
    for report in _reports(done, nonce):
        if not report["errors"]:
            return frozenset(map(str, report["collected"])), ""
        return frozenset(), str(report["errors"])[-500:]
    return frozenset(), (done.stderr or done.stdout).decode(errors="replace")[-500:]


def _pytest(box: SandboxLease, folder: str, nonce: str, mode: str, task: CodeTask, until: float) -> ExecResult:
    script = Path(pytest_runner.__file__).read_text()
    said = json.dumps([nonce, folder, mode]).encode()
    seconds = max(0.1, min(MOST_SECONDS, CASES_LONG * task.case_seconds, until - monotonic()))
    return box.exec(["python3", "-I", "-c", script], timeout_s=seconds, stdin=said)


def _reports(done: ExecResult, nonce: str) -> list[dict[str, Any]]:
    lines: Iterable[bytes] = done.stderr.splitlines()
    return [json.loads(line[len(nonce) :]) for line in lines if line.startswith(nonce.encode())]


def _touched(box: SandboxLease, folder: str, hidden: Files) -> list[str]:
    """What the code under test did to the test files; caches do not count."""
    try:
        after = box.read(folder, timeout_s=FILE_SECONDS)
    except FileError:
        return ["the tests were removed"]
    after = {path: content for path, content in after.items() if "__pycache__" not in path}
    return [] if after == dict(hidden) else ["the tests were changed while they ran"]
