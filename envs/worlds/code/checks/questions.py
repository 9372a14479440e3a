"""Name the program or function that answers a case, and refuse a case that a script of the task decides.

A script of the task shares its process with the code under test, which can forge what the script prints: it ends the
process, replaces ``print``, or returns an object that equals everything.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....draws import words
from .protected import is_protected

INTERPRETERS = words("bash cat dash lua node perl php python python3 Rscript ruby sh")
"""Commands that a case may start with: each runs the file that follows, or prints it."""
SCRIPTS = (".bash", ".js", ".lua", ".php", ".pl", ".py", ".pyc", ".R", ".rb", ".sh", ".so")
TESTS = re.compile(rb"\b(assert\w*|pytest|unittest|doctest|nosetests?)\b")
"""Text of a program that tests others."""
INSTEAD = "use `call` and `returns`, or let a program of workspace/ read `stdin` and print its answer"

Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Question:
    """A case, as far as its proof goes."""

    places: tuple[str, ...]
    """The paths of which one holds the program or the function that answers, the last one that exists."""
    name: str
    """The program or function, as the case writes it."""
    inputs: Mapping[str, str]
    """The parts of the input by name, as texts: the arguments, the standard input, files."""
    expected: str
    """The answer that the host compares, as text; empty if the host compares none, but an exception."""
    outcome: str = ""
    """The outcome without an answer, such as the name of an exception."""
    is_call: bool = False
    """Whether the answer is the result of a call with literal arguments."""

    @property
    def given(self) -> str:
        """Return the whole input as text."""
        return "\n".join(self.inputs.values())


def command_question(argv: Sequence[str], stdin: bytes, files: Files, stdout: bytes) -> Question:
    """Return the question of a command. Raises ValueError: the command cannot prove anything in any task."""
    if not stdout.strip():
        raise ValueError(
            "the case compares no answer: an exit code alone proves nothing, because the code under test can end its "
            "process; print the answer and set `stdout`, or use `call` and `returns`"
        )
    if (call := _printed_call(argv)) and not (stdin or files):
        names, arguments = call
        inputs = {"arguments": arguments}
        return Question(modules(names[:-1]), ".".join(names), inputs, stdout.decode(errors="replace"), is_call=True)
    command, *rest = argv
    if command in ("python", "python3") and rest[:1] == ["-m"] and len(rest) > 1:
        name, rest = rest[1], rest[2:]
        places = modules(name.split("."), main=True)
    else:
        path = rest.pop(0) if command in INTERPRETERS and rest else command
        name = path.removeprefix("/workspace/").removeprefix("./")
        places = (name,)
        if path.startswith("-") or (path == command and "/" not in path):
            raise ValueError(
                f"`argv` is `{' '.join(argv)[:80]}`, which neither runs a program of the task, as "
                '`["python3", "main.py"]` and `["./run", "data.txt"]` do, nor prints a call with literal arguments, as '
                '`["python3", "-c", "import calc; print(calc.add(2, 3))"]` does: other code in a command shares its '
                f"process with the code under test, which can forge what it prints; {INSTEAD}"
            )
    for path, content in files.items():
        if path in places or is_script(path, content):
            raise ValueError(
                f"`files` holds the script `{path}`, which shares its process with the code under test; `files` may "
                f"hold data only: {INSTEAD}"
            )
    data = {"standard input": stdin, **{f"file {path}": content for path, content in files.items()}}
    inputs = {"arguments": "\n".join(rest), **{part: text.decode(errors="replace") for part, text in data.items()}}
    return Question(places, name, inputs, stdout.decode(errors="replace"))


def is_script(path: str, content: bytes) -> bool:
    """Return whether a file is a program, by its name or its first line."""
    return path.endswith(SCRIPTS) or content.startswith(b"#!")


def modules(names: Sequence[str], *, main: bool = False) -> tuple[str, ...]:
    """Return the paths that may hold a module of a dotted name, or one of the packages that it is in."""
    places = list[str]()
    for count in range(1, len(names) + 1):
        path = "/".join(names[:count])
        places += [f"{path}/__init__.py", f"{path}.py"]
    return (*places, *([f"{path}/__main__.py"] if main else []))


def place_fault(question: Question, workspace: Files, solution: Files, protected: Sequence[str]) -> str:
    """Return why the program of a case may not answer it, and what to do; empty if it may.

    ``solution`` are the files that the solution adds or changes.
    """
    found = next((path for path in reversed(question.places) if path in workspace or path in solution), None)
    if found is None:
        return (
            f"a case runs `{question.name}`, but neither workspace/ nor solution/ has `{question.places[-1]}`; name a "
            "program or module that the agent has or writes"
        )
    is_fixed = is_protected(found, protected)
    if is_fixed or (found not in solution and TESTS.search(workspace[found])):
        return (
            f"a case runs `{found}`, which {'is `protected`' if is_fixed else 'asserts or runs tests'}: a script "
            "of the task shares its process with the code under test, which can forge what the script prints; "
            f"{INSTEAD}"
        )
    return ""


def _printed_call(argv: Sequence[str]) -> tuple[list[str], str] | None:
    """Return the parts of the function's name, its module first, and the literal arguments; None for other commands.

    An example is ``python3 -c "import calc; print(calc.add(2, 3))"``: a call whose result is the answer. Nothing in it
    can decide a verdict.

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
    names = [call[0] for call in calls if call]
    if not names or len(names) < len(body) or None in calls or any(one != names[0] for one in names):
        return None
    return names[0], " ".join(call[1] for call in calls if call)


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
    first, *names = dotted(value.func) or [""]
    if names and first in modules:
        return [first, *names], arguments
    return (functions[first] + names, arguments) if first in functions else None


def dotted(node: ast.AST) -> list[str]:
    """Return the parts of a dotted name; none for another expression."""
    names = list[str]()
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []
