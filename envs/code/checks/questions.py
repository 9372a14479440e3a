"""Name the program or function that answers a case, and refuse a case that a script of the task decides.

A script of the task shares its process with the code under test, which can forge what the script prints: it ends the
process, replaces ``print``, or returns an object that equals everything.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .printed_calls import printed_call
from .protected import is_protected

_INTERPRETERS = "bash cat dash lua node perl php python python3 Rscript ruby sh"
INTERPRETERS = frozenset(_INTERPRETERS.split())
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
    if (call := printed_call(argv)) and not (stdin or files):
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
