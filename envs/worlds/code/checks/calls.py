"""Cases that call a function: the sandbox gets the arguments, and the host compares the result.

``calc.add(2, 3)`` is parsed on the host. The process that runs the code under test holds the arguments only
(``call_guest``), so the code cannot read or forge the expected result.
"""

import ast
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from . import call_guest
from .call_guest import encoded

RELATIVE_TOLERANCE = 1e-9
"""Tolerance of the comparison of two floats, in units of the expected one."""
ZERO_TOLERANCE = 1e-12
"""Tolerance of the comparison with an expected 0.0."""

NOT_LITERAL = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)
"""The exceptions that Python raises for a source that is not a literal, has an unhashable key, or is too deep."""


class BadCall(ValueError):
    """A case does not describe a call and its result; the message gives the key and what to write."""


@dataclass(frozen=True, slots=True)
class CallCase:
    """A call of a function of the submitted code, and the expected result.

    Raises:
        BadCall: the call or the result is not valid.
    """

    call: str
    """A call with literal arguments: ``package.module.function(2, key="x")``."""
    returns: str = ""
    """A Python literal: the expected result. Types count; floats may differ by the tolerances."""
    raises: str = ""
    """The class name of the expected exception, instead of ``returns``."""

    def __post_init__(self) -> None:
        """Check the call and the result."""
        _parsed(self.call)
        if bool(self.returns) == bool(self.raises):
            raise BadCall("`call` needs either `returns`, a Python literal, or `raises`, the name of an exception")
        if self.returns:
            _expected(self.returns)

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command that makes the call in a sandbox."""
        return ("python3", "-I", "-c", _script())

    @property
    def stdin(self) -> bytes:
        """Return the request, the standard input of the command."""
        return json.dumps(_parsed(self.call)).encode()

    @property
    def files(self) -> Mapping[str, bytes]:
        """Return no files: a call adds none to the submission."""
        return {}

    @property
    def places(self) -> tuple[str, ...]:
        """Return the paths that may hold the function; the last one that exists holds it."""
        return modules(_parsed(self.call)[0][:-1])

    @property
    def guessable(self) -> bool:
        """Return whether code without an answer can give the expected result.

        Any code can return None, raise, or return an empty text or container. An object that compares equal to
        everything makes a function of the task return True, or False.
        """
        if not self.returns:
            return True
        value = _expected(self.returns)
        is_empty = value == "" or (isinstance(value, dict) and not any(value.values()))
        return value is None or isinstance(value, bool) or is_empty

    def passes(self, exit_code: int, stdout: bytes) -> bool:
        """Return whether the output reports the expected result."""
        report = _report(stdout)
        if self.raises:
            return report == {"raises": self.raises}
        return report is not None and set(report) == {"returns"} and _equal(_expected(self.returns), report["returns"])

    def tampering(self, exit_code: int, stdout: bytes, stderr: bytes) -> str:
        """Return the tampering that an output shows: the code ended the process before its result was printed."""
        return "ended the process before its result" if exit_code == 0 and _report(stdout) is None else ""


def modules(names: Sequence[str], *, main: bool = False) -> tuple[str, ...]:
    """Return the paths that may hold a module of a dotted name, or a package that it is in, the outermost first."""
    paths = ["/".join(names[:count]) for count in range(1, len(names) + 1)]
    places = [place for path in paths for place in (f"{path}.py", f"{path}/__init__.py")]
    return (*places, *([f"{paths[-1]}/__main__.py"] if main else []))


def _report(stdout: bytes) -> dict[str, Any] | None:
    try:
        report = json.loads(stdout)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) else None


def _equal(expected: Any, actual: Any) -> bool:
    """Compare two encoded values; the recursion is as deep as the expected one."""
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, float):
        return _close([expected], [actual])
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(map(_equal, expected, actual))
    if isinstance(expected, dict):
        if expected.keys() != actual.keys():
            return False
        ((kind, value),) = expected.items()
        return type(value) is type(actual[kind]) and _COMPARED.get(kind, _equal)(value, actual[kind])
    return bool(expected == actual)


def _close(expected: list[float], actual: list[Any]) -> bool:
    """Return whether a list holds the parts of nearly the same number."""
    if [type(part) for part in expected] != [type(part) for part in actual]:
        return False
    size = math.hypot(*expected)
    tolerance = RELATIVE_TOLERANCE * size if size else ZERO_TOLERANCE
    return expected == actual or math.dist(expected, actual) <= tolerance < math.inf


def _same_items(expected: list[Any], actual: list[Any]) -> bool:
    """Return whether two lists hold equal items in any order: nearly equal floats may be sorted differently."""
    if len(expected) != len(actual):
        return False
    left = list(actual)
    for item in expected:
        number = next((number for number, other in enumerate(left) if _equal(item, other)), None)
        if number is None:
            return False
        del left[number]
    return True


_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {"complex": _close, "set": _same_items, "dict": _same_items}
"""The comparisons of encoded values of special kinds."""


@cache
def _script() -> str:
    return Path(call_guest.__file__).read_text()


def _expected(text: str) -> Any:
    hint = "write a text as `returns = \"'text'\"`"
    try:
        value = encoded(ast.literal_eval(text))
    except NOT_LITERAL as error:
        raise BadCall(f"`returns` is {text[:200]!r}, which is not a Python literal ({error}); {hint}") from None
    if _has_object(value):
        raise BadCall(f"`returns` is {text[:200]!r}, which holds `...`, a value that cannot be compared; {hint}")
    return value


def _has_object(value: Any) -> bool:
    """Return whether an encoded value holds an object, which is encoded by its class alone."""
    if isinstance(value, dict):
        return "object" in value or any(map(_has_object, value.values()))
    return isinstance(value, list) and any(map(_has_object, value))


def _parsed(call: str) -> tuple[list[str], str]:
    """Return the parts of the function's name and the source of its literal arguments, ``(args, kwargs)``."""
    shape = f"`call` is {call[:200]!r}; write one call with literal arguments, such as `calc.add(2, 3)`"
    try:
        tree = ast.parse(call, mode="eval").body
        if not isinstance(tree, ast.Call):
            raise BadCall(shape)
        args = tuple(ast.literal_eval(argument) for argument in tree.args)
        kwargs = {keyword.arg: ast.literal_eval(keyword.value) for keyword in tree.keywords}
    except NOT_LITERAL:
        raise BadCall(shape) from None
    names = _dotted(tree.func)
    if len(names) < 2 or None in kwargs:
        raise BadCall(f"{shape}; the name of the function begins with its module")
    if names[0] in sys.stdlib_module_names:
        raise BadCall(f"`call` is {call!r}, but Python's own module {names[0]} hides the task's; rename the module")
    return names, repr((args, kwargs))


def _dotted(node: ast.AST) -> list[str]:
    """Return the parts of a dotted name; none for another expression."""
    names = list[str]()
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []
