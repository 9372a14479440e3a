"""Refuse a case whose expected output the code under test can produce without an answer.

The code under test controls its process: it can end with exit code 0, and print any text. So a case proves something
only if the code cannot guess the output that the host compares.
"""

import re
from collections.abc import Mapping, Sequence

VERDICT = re.compile(r"\W*(ok|pass|passed|success|\d+ passed|all( tests)? pass(ed)?)\b[^\n]*", re.IGNORECASE)
FORGED_VERDICT = re.compile(
    rb"^[^\w\n]{0,20}(\d+ passed|all tests pass|pass(ed)?|ok)\b[^\n]*$", re.IGNORECASE | re.MULTILINE
)
"""Output that imitates a verdict."""
TEST_RUNNERS = re.compile(r"\b(pytest|py\.test|unittest|nosetests|doctest)\b")
ASSERTION = re.compile(r"\bassert\b")


def case_fault(argv: Sequence[str], stdout: bytes, files: Mapping[str, bytes]) -> str:
    """Return why a case compares no answer, and what to do; empty if it compares one."""
    expected = stdout.decode(errors="replace").strip()
    if not expected:
        return (
            "the case compares no answer: an exit code alone proves nothing, because the code under test can end its "
            "process; print the answer and set `stdout`, or use `call` and `returns`"
        )
    if VERDICT.fullmatch(expected):
        return (
            f"the expected output {expected[:40]!r} is a verdict, which any program can print; print the answer itself "
            "and set `stdout` to it, or use `call` and `returns`"
        )
    command = " ".join(argv)
    if TEST_RUNNERS.search(command):
        return (
            "the case runs tests in one process with the code under test, which can forge their output; use `call` and "
            "`returns`, or move the tests to `tests/` and set `trusted = true`"
        )
    scripts = [command, *(content.decode(errors="replace") for path, content in files.items() if path.endswith(".py"))]
    if any(ASSERTION.search(script) for script in scripts):
        return (
            "the case asserts in the sandbox, where the code under test can end the process first; print the answer "
            "and set `stdout`, or use `call` and `returns`"
        )
    return ""
