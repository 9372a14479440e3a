"""Refuse cases whose expected output the code under test can produce without an answer.

The code under test controls its process: it can end with exit code 0, and print any text. So a case proves something
only if the code cannot guess the output that the host compares.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

VERDICT = re.compile(
    r"\W*(ok|pass|passed|success|\d+ passed|(all )?tests? pass(ed)?|all pass(ed)?|exit( code| status)?:? \d+"
    r"|(?P<count>\d+) ?(/|of|out of) ?(?P=count))\b.*",
    re.IGNORECASE,
)
"""A line that any program can print, whatever the code under test does."""
GUESS = re.compile(r"true|false|yes|no|\d", re.IGNORECASE)
"""A line that is an answer only next to a different one."""
FORGED_VERDICT = re.compile(
    rb"^[^\w\n]{0,20}(\d+ passed|all tests pass|pass(ed)?|ok)\b[^\n]*$", re.IGNORECASE | re.MULTILINE
)
"""Output that imitates a verdict."""
TEST_RUNNERS = re.compile(r"\b(pytest|py\.test|unittest|nosetests|doctest)\b")
ASSERTION = re.compile(r"\bassert\b")


def case_fault(argv: Sequence[str], stdout: bytes, files: Mapping[str, bytes]) -> str:
    """Return why a case compares no answer, and what to do; empty if it compares one."""
    expected = stdout.decode(errors="replace").strip()
    lines = _lines(stdout)
    if not lines or lines <= {"none"}:
        return (
            "the case compares no answer: an exit code alone proves nothing, because the code under test can end its "
            "process; print the answer and set `stdout`, or use `call` and `returns`"
        )
    if all(VERDICT.fullmatch(line) for line in lines):
        return (
            f"the expected output {expected[:40]!r} is a verdict, which any program can print; print the answer itself "
            "and set `stdout` to it, or use `call` and `returns`"
        )
    return scripts_fault(scripts_of(argv, files))


def scripts_of(argv: Sequence[str], files: Mapping[str, bytes]) -> list[str]:
    """Return the command and the scripts among the files of a case."""
    return [" ".join(argv), *(content.decode(errors="replace") for path, content in files.items() if _script(path))]


def guesses(stdout: bytes) -> frozenset[str] | None:
    """Return the lines of an expected output if each can be guessed; None if the output is an answer."""
    lines = _lines(stdout)
    return lines if all(GUESS.fullmatch(line) for line in lines) else None


def scripts_fault(scripts: Iterable[str]) -> str:
    """Return why scripts that run in the sandbox decide a verdict there; empty if they do not."""
    texts = list(scripts)
    if any(TEST_RUNNERS.search(text) for text in texts):
        return (
            "the case runs tests in one process with the code under test, which can forge their output; use `call` and "
            "`returns`, or move the tests to `tests/` and set `trusted = true`"
        )
    if any(ASSERTION.search(text) for text in texts):
        return (
            "the case asserts in the sandbox, where the code under test can end the process first; print the answer "
            "and set `stdout`, or use `call` and `returns`"
        )
    return ""


class ProvingCase(Protocol):
    """A case, as far as its proof goes."""

    @property
    def source(self) -> str:
        """Return the command or the call, as text."""
        ...

    @property
    def scripts(self) -> Sequence[str]:
        """Return the texts of the case that the code under test can read and that may print its answer."""
        ...

    @property
    def expected(self) -> str:
        """Return the expected answer as text; empty if the case compares none."""
        ...

    @property
    def guesses(self) -> frozenset[str] | None:
        """Return the answers that code without an answer can give; None if the case compares an answer."""
        ...


def cases_fault(cases: Sequence[ProvingCase], workspace: Mapping[str, bytes], protected: Sequence[str]) -> str:
    """Return why the cases of a task together prove nothing, and what to do; empty if they compare answers."""
    fixed = {
        path: content.decode(errors="replace")
        for path, content in workspace.items()
        if _script(path) and any(fnmatchcase(path, pattern) for pattern in protected)
    }
    found = [_guesses(case, _used([case], fixed)) for case in cases]
    answers = frozenset[str]().union(*(each for each in found if each is not None))
    if cases and None not in found and len(answers) < 2:
        return (
            "every case expects a result that code without an answer can give: always the same one of True, False, "
            "yes, no, a digit, an empty value, and a text that the case's own script holds; or None, or an exception; "
            "add a case with another answer in `returns` or `stdout`"
        )
    return scripts_fault(_used(cases, fixed)) if fixed else ""


def _guesses(case: ProvingCase, used: Sequence[str]) -> frozenset[str] | None:
    """Return the answers that code without an answer can give, or that it can read in a script of the grading."""
    if case.guesses is None and _holds([*case.scripts, *used], case.expected):
        return frozenset({case.expected})
    return case.guesses


def _holds(scripts: Sequence[str], expected: str) -> bool:
    """Return whether the scripts hold every line of an answer as whole words."""
    patterns = [rf"(?<!\w){re.escape(line)}(?!\w)" for line in map(str.strip, expected.splitlines()) if line]
    return bool(patterns) and all(any(re.search(each, text) for text in scripts) for each in patterns)


def _used(cases: Iterable[ProvingCase], scripts: Mapping[str, str]) -> list[str]:
    """Return the scripts that a case names, and those that these name, by path or module."""
    texts = [case.source for case in cases]
    left, used = dict(scripts), list[str]()
    while texts:
        words = {word for text in texts for word in re.findall(r"\w+", text)}
        texts = [left.pop(path) for path in [*left] if _stem(path) in words]
        used += texts
    return used


def _script(path: str) -> bool:
    return path.endswith((".py", ".sh"))


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _lines(stdout: bytes) -> frozenset[str]:
    lines = (line.strip().lower() for line in stdout.decode(errors="replace").splitlines())
    return frozenset(line for line in lines if line)
