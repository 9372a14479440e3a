"""Mutate the reference solution of a task: small faults of the kinds that a program can have, each one alone.

The hidden cases of a task must fail every mutant that breaks a rule of its instruction. A mutant that passes is either
equivalent under the instruction, with its reason in ``equivalent_mutants.toml``, or a hole of the cases.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from turnwise.envs.worlds.code.families.base import NOUNS
from turnwise.envs.worlds.code.task import Change, CodeTask

EQUIVALENT = Path(__file__).parent / "equivalent_mutants.toml"
OPERATORS: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add,),
    ast.FloorDiv: (ast.Mult, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Lt: (ast.LtE, ast.Gt, ast.Eq),
    ast.LtE: (ast.Lt, ast.GtE, ast.Eq),
    ast.Gt: (ast.GtE, ast.Lt, ast.Eq, ast.NotEq),
    ast.GtE: (ast.Gt, ast.LtE, ast.Eq),
    ast.Eq: (ast.NotEq, ast.LtE, ast.GtE),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
METHODS: dict[str, tuple[str, ...]] = {
    "strip": ("lstrip", "rstrip"),
    "lstrip": ("strip",),
    "rstrip": ("strip", "lstrip"),
    "lower": ("upper", "title", "swapcase"),
    "upper": ("lower", "title"),
    "partition": ("rpartition",),
    "startswith": ("endswith", "__contains__"),
    "endswith": ("startswith", "__contains__"),
    "split": ("splitlines", "rsplit"),
    "append": ("remove",),
}
FUNCTIONS = {"sum": ("len", "max"), "len": ("max", "sum"), "sorted": ("list",), "min": ("max",), "max": ("min",)}
NUMBER = re.compile(r"\d+")
WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file of a solution. ``before`` and ``after`` are its lines, with every noun as ``noun``."""

    family: str
    task: str
    path: str
    source: bytes
    before: str
    after: str

    def change(self, task: CodeTask) -> Change:
        """Return the solution of the task with this fault."""
        return {**(task.solution or {}), self.path: self.source}

    @property
    def is_equivalent(self) -> bool:
        """Return whether the record holds a reason for which this mutant breaks no rule of its instruction."""
        return any(
            re.fullmatch(entry["family"], self.family)
            and re.fullmatch(entry.get("task", ".*"), self.task)
            and re.fullmatch(entry["before"], self.before)
            and re.fullmatch(entry["after"], self.after)
            for entry in equivalents()
        )


@cache
def equivalents() -> tuple[dict[str, str], ...]:
    """Return the record of equivalent mutants: family, patterns of the lines before and after, and the reason.

    An entry with a ``task`` holds for the tasks of that name alone.
    """
    return tuple(tomllib.loads(EQUIVALENT.read_text())["mutant"])


def mutants(task: CodeTask) -> list[Mutant]:
    """Return every mutant of the solution, each different from it, in a fixed order."""
    family, found = re.split(r"-", task.name)[0], dict[tuple[str, bytes], Mutant]()
    for path, content in sorted((task.solution or {}).items()):
        text = (content or b"").decode()
        for mutated in _mutated_python(text) if path.endswith(".py") else _mutated_text(text):
            if mutated != text:
                before, after = _difference(text, mutated)
                mutant = Mutant(family, task.name, path, mutated.encode(), _plain(before), _plain(after))
                found.setdefault((path, mutated.encode()), mutant)
    return list(found.values())


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return the lines in which two texts differ, each without the white space around it."""
    old, new = before.splitlines(), after.splitlines()
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    return "\n".join(map(str.strip, old)), "\n".join(map(str.strip, new))


def _plain(text: str) -> str:
    return re.sub("|".join(NOUNS), lambda found: "noun" if found[0].islower() else "Noun", text, flags=re.IGNORECASE)


def _mutated_text(text: str) -> Iterator[str]:
    """Yield a text with each line replaced by other ones, except comments and empty lines."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            yield "\n".join(lines[:number] + lines[number + 1 :])
            for other in _other_lines(line):
                yield "\n".join([*lines[:number], other, *lines[number + 1 :]])


def _other_lines(line: str) -> Iterator[str]:
    """Yield a line without each word, with each number one off, and a command without each quote or another command."""
    for found in WORD.finditer(line):
        yield line[: found.start()] + line[found.end() :]
    for found in NUMBER.finditer(line):
        for other in (int(found[0]) + 1, int(found[0]) - 1):
            yield f"{line[: found.start()]}{other}{line[found.end() :]}"
    for old, new in (("tail", "head"), ("head", "tail"), ('"', ""), ("'", ""), ("$", ""), ("=", " = ")):
        for found in re.finditer(re.escape(old), line):
            yield line[: found.start()] + new + line[found.end() :]


def _mutated_python(source: str) -> Iterator[str]:
    tree, lines = ast.parse(source), source.encode().split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    for node in _nodes(tree):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        for other in _others(node):
            text = other if isinstance(node, ast.stmt) else f"({other})"
            indented = text.replace("\n", "\n" + " " * node.col_offset)
            mutated = (source.encode()[:start] + indented.encode() + source.encode()[end:]).decode()
            try:
                is_new = ast.dump(ast.parse(mutated)) != ast.dump(tree)
            except SyntaxError:
                continue
            if is_new:
                yield mutated


def _nodes(tree: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """Yield the statements and expressions with a place in the source, without docstrings and parts of f-strings."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.JoinedStr):
            yield child
            continue
        is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
        if isinstance(child, (ast.stmt, ast.expr)) and not is_text:
            yield child
        yield from _nodes(child) if not is_text else ()


def _others(node: ast.stmt | ast.expr) -> Iterator[str]:
    """Yield the sources that replace a node."""
    if isinstance(node, ast.stmt):
        yield from _statements(node)
    elif not isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del)):
        yield from _expressions(node)


def _statements(node: ast.stmt) -> Iterator[str]:
    yield "pass"
    if isinstance(node, ast.If):
        yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.Constant(False))
        yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        if node.orelse:
            yield _with(node, body=node.orelse, orelse=node.body)
            yield _with(node, orelse=[])
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return None"
    elif isinstance(node, ast.AugAssign):
        yield f"{ast.unparse(node.target)} = {ast.unparse(node.value)}"
        yield from (_with(node, op=other()) for other in OPERATORS.get(type(node.op), ()))
    elif isinstance(node, ast.For):
        yield from (_with(node, iter=_sliced(node.iter, cut)) for cut in ("[1:]", "[:-1]", "[::-1]"))
        yield _with(node, body=[*node.body, ast.Break()])
    elif isinstance(node, ast.Continue):
        yield "break"


def _expressions(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant):
        yield from map(repr, _constants(node.value))
    elif isinstance(node, ast.BinOp):
        yield from (_with(node, op=other()) for other in OPERATORS.get(type(node.op), ()))
        yield from (ast.unparse(node.left), ast.unparse(node.right))
    elif isinstance(node, ast.BoolOp):
        yield from (_with(node, op=other()) for other in OPERATORS[type(node.op)])
        for number in range(len(node.values)):
            left = [value for each, value in enumerate(node.values) if each != number]
            yield ast.unparse(left[0]) if len(left) == 1 else _with(node, values=left)
    elif isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            for other in OPERATORS[type(operator)]:
                yield _with(node, ops=[*node.ops[:number], other(), *node.ops[number + 1 :]])
    elif isinstance(node, ast.UnaryOp):
        yield ast.unparse(node.operand)
    elif isinstance(node, ast.IfExp):
        yield from (ast.unparse(node.body), ast.unparse(node.orelse), _with(node, body=node.orelse, orelse=node.body))
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield ast.unparse(node.value)
        for part in ("lower", "upper", "step"):
            if getattr(node.slice, part) is not None:
                yield _with(node, slice=_changed(node.slice, **{part: None}))
        yield from (f"{ast.unparse(node)}{cut}" for cut in ("[1:]", "[:-1]", "[::-1]"))
    elif isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        first, *more = node.generators
        if first.ifs:
            yield _with(node, generators=[_changed(first, ifs=[]), *more])
        for cut in ("[1:]", "[:-1]"):
            yield _with(node, generators=[_changed(first, iter=_sliced(first.iter, cut)), *more])
    elif isinstance(node, (ast.Tuple, ast.List)) and len(node.elts) > 1:
        for number in range(len(node.elts)):
            yield _with(node, elts=[*node.elts[:number], *node.elts[number + 1 :]])
        yield _with(node, elts=node.elts[::-1])


def _calls(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Attribute):
        yield ast.unparse(node.func.value)
        for name in METHODS.get(node.func.attr, ()):
            yield _with(node, func=_changed(node.func, attr=name))
    elif isinstance(node.func, ast.Name):
        for name in FUNCTIONS.get(node.func.id, ()):
            yield _with(node, func=ast.Name(name))
    for number, argument in enumerate(node.args):
        yield _with(node, args=[*node.args[:number], *node.args[number + 1 :]])
        if len(node.args) == 1 and not node.keywords and not isinstance(argument, ast.Starred):
            yield ast.unparse(argument)
    for number in range(len(node.keywords)):
        yield _with(node, keywords=[*node.keywords[:number], *node.keywords[number + 1 :]])


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, 0)
    elif isinstance(value, str):
        yield from ("", value + " ", value[:-1], value.swapcase())


def _sliced(node: ast.expr, cut: str) -> ast.expr:
    return ast.parse(f"list({ast.unparse(node)}){cut}", mode="eval").body


def _changed(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    return type(node)(**{**{name: getattr(node, name) for name in node._fields}, **fields})


def _with(node: ast.AST, **fields: object) -> str:
    """Return the source of a node with other fields."""
    return ast.unparse(ast.fix_missing_locations(_changed(node, **fields)))
