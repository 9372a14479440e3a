"""Build a task around a program that reads standard input, from one visible example and hidden inputs."""

import textwrap
from collections.abc import Callable, Mapping, Sequence

from ....sandbox import Tree
from ..task import Case, CodeTask


def program_task(
    *,
    name: str,
    instruction: str,
    path: str,
    given: str,
    right: str,
    wrong: Mapping[str, str],
    inputs: Sequence[str],
    reference: Callable[[str], str],
) -> CodeTask:
    """Build a task in which ``python3 path`` must print the result of ``reference`` for any input.

    The instruction shows the first of ``inputs`` with its answer; the others are the hidden cases. Two wrong solutions
    are added to ``wrong``: one that prints the answer of the example, and one that prints nothing.
    """
    example, *hidden = inputs
    by_heart = f"import sys\n\nsys.stdin.read()\nprint({reference(example).rstrip()!r})\n"
    shown = f"For example, from\n\n{_indented(example)}\nit must make\n\n{_indented(reference(example))}"
    sources = {**wrong, "the example by heart": by_heart, "nothing printed": ""}
    return CodeTask(
        name=name,
        instruction=f"{instruction.strip()}\n\n{shown}",
        workspace=Tree.of({path: given.encode()}),
        cases=tuple(Case(("python3", path), reference(each).encode(), each.encode()) for each in hidden),
        solution={path: right.encode()},
        mutations={what: {path: source.encode()} for what, source in sources.items()},
    )


def _indented(block: str) -> str:
    return textwrap.indent(block.rstrip() + "\n", "    ")
