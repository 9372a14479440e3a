"""Find a program of the task that decides a case on what the code under test returns.

A program that the solution does not change shares its process with the code under test. An object of that code answers
``==`` and a test of truth as it likes. So a program that compares a result and then prints a value of its own is
certainly forgeable. Nothing else is judged: a program that prints the result too, or constants only, loads.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TypeAlias

from ....draws import words
from .questions import Files, dotted

Path: TypeAlias = tuple[str, ...]
"""Names from a package down to a module, or to a name in it."""
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Tested:
    """The names of a script that imports bind, and the ``modules`` that the solution changes."""

    names: Mapping[str, Path]
    modules: Mapping[str, bool]

    def is_call(self, node: ast.AST) -> bool:
        """Return whether an expression calls into a module that the solution changes."""
        first, *rest = dotted(node.func if isinstance(node, ast.Call) else node) or [""]
        if not isinstance(node, ast.Call) or first not in self.names:
            return False
        path = [*self.names[first], *rest]
        ends = range(len(path) if path[0] not in sys.stdlib_module_names else 0, 0, -1)
        found = (self.modules[name] for end in ends if (name := ".".join(path[:end])) in self.modules)
        return next(found, False)


def modules(files: Collection[str], solution: Collection[str]) -> dict[str, bool]:
    """Return whether the solution changes each module, by every dotted name that an import may give it."""
    found = dict[str, bool]()
    for file in files:
        *folders, last = file.removesuffix(".py").removesuffix("/__init__").split("/")
        for start in range(len(folders) + 1 if file.endswith(".py") else 0):
            name = ".".join([*folders[start:], last])
            found[name] = found.get(name, True) and file in solution
    return found


def imports(tree: ast.Module, folder: Path) -> dict[str, Path]:
    """Return what imports bind, by name, without names that the script binds itself too.

    A relative import begins at ``folder``, that of the script.
    """
    found = dict[str, Path]()
    bound = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = tuple(alias.name.split("."))
                found[alias.asname or path[0]] = path if alias.asname else path[:1]
        elif isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) + 1 - node.level] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            found |= {alias.asname or alias.name: (*base, *module, alias.name) for alias in node.names}
        else:
            bound.update(assigned(node))
            if isinstance(node, FUNCTION | ast.ClassDef):
                bound.add(node.name)
    return {name: path for name, path in found.items() if name not in bound}


def nodes_of(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module or function in the order of the text, without those of functions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, FUNCTION):
            yield from nodes_of(node)


def assigned(node: ast.AST) -> Iterator[str]:
    """Yield the name that a node binds or deletes as a variable or a parameter."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg


def flows(nodes: Sequence[ast.AST]) -> Iterator[tuple[set[str], ast.expr]]:
    """Yield the names that a value may flow into, with the value: variables, parameters, functions that return it."""
    parameters = {
        node.name: {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        for node in nodes
        if isinstance(node, FUNCTION)
    }
    for node in nodes:
        targets = [*getattr(node, "targets", ()), getattr(node, "target", None), getattr(node, "optional_vars", None)]
        bound = {name for target in targets if target for name in _names(target)}
        for part in ("value", "iter", "context_expr"):
            if bound and isinstance(value := getattr(node, part, None), ast.expr):
                yield bound, value
        match node:
            case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in parameters:
                for value in (*args, *(each.value for each in keywords)):
                    yield parameters[name], value
            case ast.Call(func=ast.Attribute(value=target, attr="append" | "extend" | "add" | "update"), args=args):
                for value in args:
                    yield _names(target), value
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                for each in nodes_of(node):
                    if isinstance(each, ast.Return | ast.Yield | ast.YieldFrom) and each.value:
                        yield {name}, each.value


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


CONVERSIONS = words("str repr int float len bool list tuple set sorted abs round bytes")
"""Functions that return their argument in another form."""
OUTPUTS = words("print pprint write writelines dump info")
"""Functions and methods that print."""
EQUALS = words("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __contains__")
IDENTITY = ast.Is | ast.IsNot
ORDER = ast.Lt | ast.LtE | ast.Gt | ast.GtE
BRANCH = ast.If | ast.IfExp | ast.While
LOOP = ast.For | ast.AsyncFor | ast.While | ast.comprehension | ast.ListComp | ast.SetComp | ast.GeneratorExp
SHELL = re.compile(rb"#![^\n]*\b(?:ba|da)?sh\b")
COMMENT = re.compile(r"(?:^|\s)#.*")
BRACKETS = re.compile(r"\[\s(.*?)\s(?:[=!]?=|-eq|-ne|-lt|-le|-gt|-ge)\s(.*?)\s\]")
"""A test in brackets; the groups are the two sides."""
COMMAND = r"(?:^|[;&|({!]|\b(?:if|while|until|then|do)\s)\s*(?:diff|cmp)\s[^;&]*"
COMPARES = re.compile(rf"^\s*(?:if|while|until)\b.*{COMMAND}|.*{COMMAND}(?:&&|\|\|)")
"""A command that compares files or streams, and that decides."""


def decision(places: Sequence[str], workspace: Files, solution: Files) -> str:
    """Return where the program of a case decides on a result, as path and line; empty if it does not.

    The last of ``places`` that exists is the program. ``solution`` are the files that the solution changes: the code
    under test. Nothing is judged without them.
    """
    path = next((path for path in reversed(places) if path in workspace or path in solution), "")
    if not solution or path not in workspace or path in solution:
        return ""
    content = workspace[path]
    if path.endswith((".sh", ".bash")) or SHELL.match(content):
        line = _shell_line(content.decode(errors="replace"), solution)
    else:
        line = _python_line(content, path, workspace.keys() | solution.keys(), solution)
    return f"`{path}`, line {line}," if line else ""


def _shell_line(script: str, tested: Collection[str]) -> int:
    """Return the first line that compares output of a tested file that it names; 0 if none does."""
    name = rf"\b(?:{'|'.join(re.escape(PurePosixPath(path).stem) for path in tested)})\b"
    output = re.compile(rf"(?:\$\(|`).*{name}")
    for number, line in enumerate(script.splitlines(), 1):
        text = COMMENT.sub("", line)
        sides = [side for each in BRACKETS.finditer(text) for side in each.groups()]
        compared = COMPARES.match(text)
        if any(map(output.search, sides)) or (compared and re.search(name, compared.group())):
            return number
    return 0


def _python_line(content: bytes, path: str, files: Collection[str], solution: Collection[str]) -> int:
    try:
        tree = ast.parse(content)
        script = _Script(tree, Tested(imports(tree, PurePosixPath(path).parent.parts), modules(files, solution)))
        return min((node.lineno for node in script.decisions if not script.prints_result_of(node)), default=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0


@dataclass(slots=True)
class _Results:
    """The results of calls of the code under test, in one function of a script."""

    tested: Tested
    nodes: Sequence[ast.AST]
    variables: set[str] = field(default_factory=set)
    """Those assigned once, from a result."""

    def __post_init__(self) -> None:
        """Find the variables."""
        counts = Counter(name for node in self.nodes for name in assigned(node))
        for node in self.nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value and self.has(node.value):
                bound = {name for each in ast.walk(node) for name in assigned(each)}
                self.variables |= {name for name in bound if counts[name] == 1}

    def has(self, node: ast.AST) -> bool:
        """Return whether an expression is a result, a part of one, or a conversion of one."""
        match node:
            case ast.Name(id=name):
                return name in self.variables
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.has(value)
            case ast.Attribute(value=value) | ast.Subscript(value=value):
                return self.has(value)
            case ast.Call(func=ast.Name(id=name), args=[value, *_]) if name in CONVERSIONS:
                return self.has(value)
            case ast.Call(func=func):
                return self.tested.is_call(node) or (isinstance(func, ast.Attribute) and self.has(func.value))
        return False

    def compares(self, node: ast.AST, in_loop: bool) -> bool:
        """Return whether a node compares a result with a value of the script; in a loop, a search is free."""
        match node:
            case ast.Compare(left=left, ops=ops, comparators=others) if not isinstance(ops[0], IDENTITY):
                sides = [left, *others]
                held = [side for side in sides if any(map(self.has, _items(side)))]
                if not held or (in_loop and (isinstance(ops[0], ORDER) or len(held) == len(sides))):
                    return False
                computed = any(not _is_constant(side) for side in sides if side not in held)
                return len(held) == len(sides) or computed or any(map(_has_constant_input, held))
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=[other]) if not _is_constant(other):
                is_search = name in ("count", "index") and any(map(self.has, _items(value)[1:]))
                return is_search or (name in EQUALS and self.has(value))
        return False

    def tests(self, node: ast.AST) -> bool:
        """Return whether an expression tests the truth of a result, or compares it with a constant."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=value):
                return self.tests(value)
            case ast.BoolOp(values=values):
                return any(map(self.tests, values))
            case ast.Compare(left=left, ops=ops, comparators=others) if not isinstance(ops[0], IDENTITY):
                return any(map(self.has, [left, *others]))
        return self.has(node)

    def decides(self, node: ast.AST) -> bool:
        """Return whether a node decides on a result. A choice between two outcomes is an answer of the result."""
        match node:
            case ast.Assert(test=test) | ast.If(test=test, orelse=[]):
                return self.tests(test)
            case ast.IfExp(test=test, body=body, orelse=other):
                return _is_constant(body) != _is_constant(other) and self.tests(test)
            case ast.Match(subject=subject, cases=[ast.match_case(pattern=ast.MatchValue())]):
                return self.has(subject)
        return False


class _Script:
    """The decisions of a script, and what it prints."""

    def __init__(self, tree: ast.Module, tested: Tested) -> None:
        self.tested = tested
        nodes = list(ast.walk(tree))
        looped = {id(each) for node in nodes if isinstance(node, LOOP) for each in ast.walk(node)}
        scopes = [tree, *(node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))]
        results = [_Results(tested, list(nodes_of(scope))) for scope in scopes]
        self.decisions: list[ast.stmt | ast.expr] = [
            node
            for each in results
            for node in each.nodes
            if isinstance(node, ast.stmt | ast.expr)
            and (each.compares(node, id(node) in looped) or (id(node) not in looped and each.decides(node)))
        ]
        self.skipped = {id(node) for node in self.decisions if isinstance(node, ast.Compare | ast.Call)}
        self.skipped |= {id(node.test) for node in nodes if isinstance(node, BRANCH)}
        self.branches = {id(each): node for node in nodes if isinstance(node, ast.If) for each in ast.walk(node.test)}
        self.carrying = set[str]()
        given = list(flows(nodes))
        while more := {
            name for names, value in given if names - self.carrying and self._carries(value) for name in names
        }:
            self.carrying |= more
        outputs = [node for node in nodes if isinstance(node, ast.Call) and _is_output(node)]
        self.shown = [output for output in outputs if any(map(self._carries, output.args))]
        parts = [(output, part) for output in outputs if output not in self.shown for part in output.args]
        self.own = [output for output, part in parts if any(isinstance(each, ast.Name) for each in self._walk(part))]

    def prints_result_of(self, node: ast.stmt | ast.expr) -> bool:
        """Return whether the answer after a decision is a result, or holds nothing that the script computes."""
        branch = node if isinstance(node, ast.If) else self.branches.get(id(node))
        parts = [*branch.body, *branch.orelse] if branch else []
        arms = {id(each) for part in parts for each in ast.walk(part)}
        is_own = any((output.end_lineno or 0) >= node.lineno for output in self.own)
        return not is_own or any(id(output) not in arms for output in self.shown)

    def _carries(self, node: ast.AST) -> bool:
        """Return whether an expression holds a result, or what is computed from one."""
        return any(
            self.tested.is_call(each) or (isinstance(each, ast.Name) and each.id in self.carrying)
            for each in self._walk(node)
        )

    def _walk(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes of an expression, without the decisions in it."""
        if id(node) not in self.skipped:
            yield node
            for each in ast.iter_child_nodes(node):
                yield from self._walk(each)


def _is_output(node: ast.Call) -> bool:
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name in OUTPUTS and not any("stderr" in ast.unparse(each) for each in (node.func, *node.keywords))


def _items(node: ast.expr) -> list[ast.expr]:
    """Return a node and the items of a list that it writes out."""
    return [node, *(node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else ())]


def _is_constant(node: ast.AST) -> bool:
    return not any(isinstance(each, ast.Name) for each in ast.walk(node))


def _has_constant_input(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and all(map(_is_constant, node.args))
