"""Commands such as ``python3 -c "import calc; print(calc.add(2, 3))"``: a call whose result is the answer.

The code holds no more than the name of a function and literal arguments, so nothing in it can decide a verdict.
"""

import ast
from collections.abc import Sequence


def printed_call(argv: Sequence[str]) -> tuple[list[str], str] | None:
    """Return the parts of the function's name, its module first, and the literal arguments; None for other commands.

    The code consists of imports and of one or more ``print`` of calls of one function.
    """
    if len(argv) != 3 or argv[0] not in ("python", "python3") or argv[1] != "-c":
        return None
    try:
        body = ast.parse(argv[2]).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    modules, functions = set[str](), dict[str, list[str]]()
    while body and isinstance(body[0], (ast.Import, ast.ImportFrom)):
        first = body.pop(0)
        if isinstance(first, ast.Import) and not any(one.asname for one in first.names):
            modules.update(one.name.partition(".")[0] for one in first.names)
        elif isinstance(first, ast.ImportFrom) and first.module and not first.level:
            path = first.module.split(".")
            functions |= {one.asname or one.name: [*path, one.name] for one in first.names}
        else:
            return None
    found = [one for statement in body for one in _printed(statement)]
    calls = [_call(one, modules, functions) for one in found]
    names = [one[0] for one in calls if one]
    if not names or len(names) < len(body) or None in calls or any(one != names[0] for one in names):
        return None
    return names[0], " ".join(one[1] for one in calls if one)


def _printed(statement: ast.stmt) -> list[ast.expr | None]:
    """Return the arguments of a ``print``; None stands for a statement of another kind."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name) or value.func.id != "print":
        return [None]
    return [None] if value.keywords or not value.args else [*value.args]


def _call(value: ast.expr | None, modules: set[str], functions: dict[str, list[str]]) -> tuple[list[str], str] | None:
    """Return the parts of the name of a function and its arguments; None if the value is not a call with literals."""
    if not isinstance(value, ast.Call):
        return None
    try:
        arguments = repr(
            ([ast.literal_eval(one) for one in value.args], [ast.literal_eval(k.value) for k in value.keywords])
        )
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    names, function = list[str](), value.func
    while isinstance(function, ast.Attribute):
        names.insert(0, function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return None
    if names and function.id in modules:
        return [function.id, *names], arguments
    return (functions[function.id] + names, arguments) if function.id in functions else None
