"""A case that calls a function compares values and types, and no output of the submitted code forges its result."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.envs.worlds.code.checks import call_guest, calls
from turnwise.envs.worlds.code.checks.calls import BadCall, CallCase


def output(case: CallCase, folder: Path, source: str) -> subprocess.CompletedProcess[bytes]:
    """Make the call as the sandbox does, with a folder of the test in place of the work folder."""
    (folder / "calc.py").write_text(source)
    script = case.argv[3].replace(f'WORKSPACE = "{call_guest.WORKSPACE}"', f"WORKSPACE = {str(folder)!r}")
    return subprocess.run([sys.executable, *case.argv[1:3], script], input=case.stdin, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("returns", "right", "wrong"),
    [
        ("5", "5", ("5.0", "'5'", "True", "6", "None")),
        ("1", "1", ("True", "1.0")),
        ("0.3", "0.1 + 0.2", ("0.30001", "'0.3'", "0")),
        ("None", "None", ("0", "False")),
        (
            "(1, [2, {3: {4}}], b'x')",
            "(1, [2, {3: {4}}], b'x')",
            ("[1, [2, {3: {4}}], b'x']", "(1, [2, {3: {5}}], b'x')"),
        ),
        ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", ("{'a': 1}", "{'a': 1, 'b': 2, 'c': 3}")),
        ("'it\\n'", "'it\\n'", ("'it'",)),
        ("(-1+2j, [3j])", "(-1 + 2j, [3j])", ("(7j, [3j])", "(-1 + 2j, [0j])", "(-1, [3j])")),
        ("[0.0, 1+0j]", "[0.1 + 0.2 - 0.3, 1 + 1e-17j]", ("[1e-9, 1+0j]", "[0, 1+0j]", "[0.0, 1 + 1e-6j]")),
        ("6.6e-34", "6.6e-34", ("0.0", "6.7e-34")),
        ("1e999", "float('inf')", ("1e308", "-float('inf')", "float('nan')")),
        ("{0.3, 0.1}", "{0.1 + 0.2, 0.1}", ("{0.3}", "{0.3, 0.2}", "{0.3, 0.1, 0.2}", "[0.3, 0.1]")),
        ("{9.999999999999999, 2.0}", "{10.0, 2.0}", ("{10.0, 3.0}", "{10, 2.0}")),
        ("{10.0: 'a', 2.0: 'b'}", "{2.0: 'b', 9.999999999999998: 'a'}", ("{2.0: 'a', 10.0: 'b'}",)),
        ("{(9.999999999999999, 1), (2.0, 5)}", "{(10.0, 1), (2.0, 5)}", ("{(10.0, 5), (2.0, 1)}",)),
    ],
)
def test_values_and_types_are_compared(tmp_path: Path, returns: str, right: str, wrong: tuple[str, ...]) -> None:
    case = CallCase("calc.add(2, three=[3])", returns)
    for value, passes in ((right, True), *((each, False) for each in wrong)):
        done = output(case, tmp_path, f"def add(two, three):\n    print('noise')\n    return {value}\n")
        assert case.passes(done.returncode, done.stdout) is passes, value


def test_an_exception_is_compared_by_its_class(tmp_path: Path) -> None:
    case = CallCase("calc.add(2)", raises="KeyError")
    for error, passes in (("KeyError", True), ("ValueError", False), ("KeyboardInterrupt", False)):
        done = output(case, tmp_path, f"def add(two):\n    raise {error}('x')\n")
        assert case.passes(done.returncode, done.stdout) is passes
        assert not case.tampering(done.returncode, done.stdout, b"")


@pytest.mark.parametrize(
    ("source", "raises"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("other = 1", "AttributeError"),
        ("raise ModuleNotFoundError", "ModuleNotFoundError"),
        ("one = []\none.append(one)\ndef add(two):\n    return one", "RecursionError"),
    ],
)
def test_only_an_exception_of_the_call_counts(tmp_path: Path, source: str, raises: str) -> None:
    case = CallCase("calc.add(2)", raises=raises)
    done = output(case, tmp_path, source)
    assert not case.passes(done.returncode, done.stdout)


@pytest.mark.parametrize("literal", ["...", "{'a': [...]}", "{[1]: 2}", "-" * 200_000 + "1", "{{}}"])
def test_a_result_that_cannot_be_compared_is_refused(literal: str) -> None:
    with pytest.raises(BadCall, match="`returns` is"):
        CallCase("calc.add(2)", literal)


@pytest.mark.parametrize("literal", ["{[1]: 2}", "-" * 200_000 + "1"])
def test_an_argument_that_is_not_a_literal_is_refused(literal: str) -> None:
    with pytest.raises(BadCall, match="`call` is"):
        CallCase(f"calc.add({literal})", "5")


EQUAL_TO_ALL = """
class Equal(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
    __repr__ = __str__ = lambda self: "5"
def add(one, two):
    return Equal()
"""
FRAMES = """
import gc, sys
def add(one, two):
    frame = sys._getframe()
    while frame:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if isinstance(value, dict) and "returns" in value:
                return value["returns"]
        frame = frame.f_back
    return [each for each in gc.get_objects() if isinstance(each, dict) and "returns" in each]
"""


@pytest.mark.parametrize(
    "source", [EQUAL_TO_ALL, FRAMES, "import os\nos._exit(0)", "import os\nos.write(1, b'5')\nos._exit(0)"]
)
def test_a_forged_result_does_not_pass(tmp_path: Path, source: str) -> None:
    case = CallCase("calc.add(2, 3)", "5")
    done = output(case, tmp_path, source)
    assert not case.passes(done.returncode, done.stdout)
    ended_early = "_exit" in source
    assert bool(case.tampering(done.returncode, done.stdout, b"")) is ended_early


@pytest.mark.parametrize("stdout", [b"", b"5", b"[" * 60_000, b'{"returns": 5, "raises": 5}', b"null", b"\xff", b"NaN"])
def test_output_that_is_no_report_does_not_pass(stdout: bytes) -> None:
    assert not CallCase("calc.add(2, 3)", "5").passes(0, stdout)


@pytest.mark.parametrize("value", ["[1, 2, 3]", '[1.0, "x"]', '"x"', "[1.8e308, -1.8e308]", "[[1.0], 2.0]", "null"])
def test_a_forged_encoding_does_not_pass(value: str) -> None:
    for kind, returns in (("complex", "1e308+1e308j"), ("set", "{1.5}"), ("dict", "{1.5: 2}"), ("list", "[1.5]")):
        assert not CallCase("calc.add(2, 3)", returns).passes(0, f'{{"returns": {{"{kind}": {value}}}}}'.encode())


def test_the_request_holds_the_arguments_only() -> None:
    case = CallCase("pkg.calc.Sum.of(2, [3], key='x')", "'violet'")
    names, arguments = json.loads(case.stdin)
    assert (names, arguments) == (["pkg", "calc", "Sum", "of"], "((2, [3]), {'key': 'x'})")
    assert b"violet" not in case.stdin
    assert "violet" not in "".join(case.argv)


def test_collections_of_different_lengths_are_not_compared_item_by_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_equal", None)
    assert not calls._same_items([1, 2], [1])
    assert not calls._same_items([1], [1, 2])
