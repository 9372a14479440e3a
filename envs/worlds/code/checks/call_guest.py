"""Call a function of the submitted code in the grading sandbox and print its result, as a script.

The script runs under ``python3 -I -c``. Its standard input holds ``[names, arguments]``: the dotted name of the
function in parts, and the source of a literal ``(args, kwargs)``. It prints one JSON object: ``{"returns": VALUE}``
with an encoded value, or ``{"raises": NAME}`` with the class of an exception of the call, or ``{"failed": NAME}`` with
the class of an exception before or after it: the function is not found, or its result cannot be encoded. The code under
test shares this process, so the process holds nothing but the arguments: no expected value, no secret, no other case.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from importlib import import_module

TYPE_CHECKING = False
"""Stands in for that of ``typing``, whose import would take time in each call."""
if TYPE_CHECKING:
    from typing import Any

WORKSPACE = "/workspace"


def encoded(value: Any) -> Any:
    """Return a literal value as JSON that keeps its types; the host encodes the expected value in the same way."""
    if value is None or isinstance(value, bool):
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [encoded(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((encoded(item) for item in value), key=json.dumps)}
    if isinstance(value, dict):
        return {"dict": sorted(([encoded(key), encoded(item)] for key, item in value.items()), key=json.dumps)}
    return {"object": type(value).__name__}


def find(names: list[str]) -> Any:
    """Return the attribute of a dotted name, importing the modules on the way.

    Raises:
        AttributeError: the module has no such attribute; and what an import raises.
    """
    found = import_module(names[0])
    for number, name in enumerate(names[1:], 2):
        if not hasattr(found, name):
            import_submodule(".".join(names[:number]))
        found = getattr(found, name)
    return found


def import_submodule(path: str) -> None:
    """Import a module of a package. Raises AttributeError if it does not exist; and what the import raises."""
    try:
        import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise AttributeError(path) from None


def report_of_call(names: list[str], args: Any, kwargs: Any) -> str:
    """Call the function and return the report, as JSON. Only an exception of the call itself counts as ``raises``."""
    try:
        function = find(names)
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - the outcome of the call
            return json.dumps({"raises": type(error).__name__})
        return json.dumps({"returns": encoded(value)})
    except BaseException as error:  # noqa: BLE001 - the submitted code does not answer
        return json.dumps({"failed": type(error).__name__})


def main() -> None:
    """Read the request, call the function, print the result and end the process."""
    names, arguments = json.loads(sys.stdin.read())
    args, kwargs = ast.literal_eval(arguments)
    out = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    sys.dont_write_bytecode = True
    sys.path.append(WORKSPACE)
    text = report_of_call(names, args, kwargs)
    with os.fdopen(out, "w") as file:
        file.write(text)
    os._exit(0)


if __name__ == "__main__":
    main()
