"""Find a script of the task that decides a case on a value of the code under test.

A script that the solution does not change shares its process with the code under test. An object of that code answers
a comparison, a lookup or a test of truth as it likes, with methods such as ``__eq__``, ``__hash__`` or ``__bool__``. So
such a script may compute inputs, call the code under test, and print what it returns; it may not decide on it.
"""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from .questions import Files, is_script

_STARTERS = """
__import__ import_module exec eval run_path run_module subprocess popen check_output getoutput
"""
STARTERS = frozenset(_STARTERS.split())
"""Names by which a script runs the code under test without an import."""
_PRESENTING = """
print str repr format int float complex round abs sum min max len list tuple dict sorted reversed map zip enumerate
iter next range join append extend write writelines writerow writerows dump dumps pprint pformat getattr run exit asdict
"""
PRESENTING = frozenset(_PRESENTING.split())
"""Functions and methods that show, convert or order values."""
_COMPARING = """
__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __contains__ __bool__ count index remove find
"""
COMPARING = frozenset(_COMPARING.split())
"""Methods that compare or test a value, or the items of a list."""
DECISION = re.compile(
    rb"""
    ^\s*(?:if|elif|case|while|until|unless|test)\b | \[\s | \[\[ | [=!]= | \$\? | \b(?:diff|cmp|comm|grep)\b
    | (?:&&|\|\|)\s*(?:echo|printf)
    """,
    re.MULTILINE | re.VERBOSE,
)
"""Text of a script in another language than Python that decides something."""
PATH = re.compile(r"[\w./-]+")


def decision(places: Collection[str], workspace: Files, solution: Files) -> str:
    """Return where a script decides on a value of the code under test, as path and line; empty if none does.

    ``places`` are those of the program or function of a case, ``solution`` the files that the solution changes. Without
    a solution, every file of the workspace is code under test.
    """
    scripts = [path for path in places if path in workspace and path not in solution]
    for path in scripts:
        named = _named(path, workspace, workspace.keys() | solution.keys())
        scripts += sorted(other for other in named - {*scripts, *solution} if is_script(other, workspace[other]))
    tested = set(solution) or workspace.keys() - set(places)
    while more := {path for path in scripts if path not in tested and _named(path, workspace, tested)}:
        tested |= more
    for path in scripts:
        if line := _decision(path, workspace, tested - {path}):
            return f"`{path}`, line {line},"
    return ""


def _decision(path: str, workspace: Files, tested: Collection[str]) -> int:
    """Return the line of the first decision of a script; 0 if it makes none."""
    content = workspace[path]
    tree = _parsed(content)
    if tree is None:
        found = DECISION.search(content) if _named(path, workspace, tested) else None
        return content.count(b"\n", 0, found.end()) + 1 if found else 0
    if not _named(path, workspace, tested):
        return 0
    values = _Values(tree, {name for node in ast.walk(tree) for name in _bound(node, tested)})
    lines = (node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr) and values.decides(node))
    return min(lines, default=0)


def _parsed(content: bytes) -> ast.Module | None:
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _named(path: str, workspace: Files, others: Collection[str]) -> set[str]:
    """Return those of other files that a script imports or names."""
    tree = _parsed(workspace[path])
    if tree is None:
        texts = {workspace[path].decode(errors="replace")}
        modules = {word.partition(".")[0] for text in texts for word in PATH.findall(text)}
    else:
        nodes = list(ast.walk(tree))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        modules = texts | {name for node in nodes for name in _imported(node)}
    names = {word.rpartition("/")[2] for text in texts for word in PATH.findall(text)}
    return {
        other
        for other in others
        if other != path and (_module(other) in modules - {""} or other.rpartition("/")[2] in names)
    }


def _module(path: str) -> str:
    """Return the last name of the module that a path holds; empty if it holds none."""
    stem, _, suffix = path.rpartition(".")
    *_, folder, name = ["", *stem.split("/")]
    return "" if suffix != "py" else folder if name in ("__init__", "__main__") else name


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield each name that an import may find a module by."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from alias.name.split(".")
    if isinstance(node, ast.ImportFrom):
        yield from (node.module or "").split(".")
        yield from (alias.name for alias in node.names)


def _bound(node: ast.AST, tested: Collection[str]) -> Iterator[str]:
    """Yield the names that an import binds to the code under test."""
    modules = {_module(path) for path in tested}
    for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
        path = [*alias.name.split("."), *((node.module or "").split(".") if isinstance(node, ast.ImportFrom) else ())]
        if not modules.isdisjoint(path):
            yield alias.asname or alias.name.partition(".")[0]


@dataclass(slots=True)
class _Values:
    """The names of a script that hold values of the code under test, wherever in the script they get them."""

    tree: ast.Module
    imported: set[str]
    names: set[str] = field(default_factory=set)
    """Variables and functions, the imported ones included; an attribute begins with a dot."""
    functions: dict[str, list[str]] = field(default_factory=dict)
    """The parameters of the functions and classes of the script."""

    def __post_init__(self) -> None:
        """Follow the values through assignments, loops, functions and attributes."""
        nodes = list(ast.walk(self.tree))
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions[node.name] = _parameters(node)
            elif isinstance(node, ast.ClassDef):
                made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
                self.functions[node.name] = [name for each in made for name in _parameters(each)]
        self.imported -= self.functions.keys()
        self.imported |= _unbound(nodes) - self.functions.keys()
        self.names |= self.imported | STARTERS | {f".{name}" for name in STARTERS}
        before = 0
        while before < len(self.names):
            before = len(self.names)
            for node in nodes:
                self.names |= set(self._given(node))

    def hold(self, node: ast.AST | None) -> bool:
        """Return whether an expression holds such a value. ``is None`` holds none: no object decides on it."""
        left = [node] if node is not None else []
        while left:
            each = left.pop()
            if isinstance(each, ast.Name | ast.Attribute) and _key(each) in self.names:
                return True
            if not (isinstance(each, ast.Compare) and _is_none(each)):
                left += ast.iter_child_nodes(each)
        return False

    def _given(self, node: ast.AST) -> Iterator[str]:
        """Yield the names to which a node gives such a value."""
        match node:
            case ast.Assign(targets=targets, value=value) if self.hold(value):
                yield from (name for target in targets for name in _targets(target))
            case (
                ast.AnnAssign(target=target, value=value)
                | ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
                | ast.For(target=target, iter=value)
                | ast.AsyncFor(target=target, iter=value)
                | ast.comprehension(target=target, iter=value)
                | ast.withitem(context_expr=value, optional_vars=ast.expr() as target)
            ) if self.hold(value):
                yield from _targets(target)
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                inner = [each for statement in body for each in ast.walk(statement)]
                if any(isinstance(each, ast.Return | ast.Yield | ast.YieldFrom) and self.hold(each) for each in inner):
                    yield from (name, f".{name}")
            case ast.ClassDef(name=name, bases=bases) if any(map(self.hold, bases)):
                yield name
            case ast.Call(func=func) if any(map(self.hold, _arguments(node))):
                yield from self.functions.get(_key(func).removeprefix("."), ())
                if isinstance(func, ast.Attribute) and func.attr in ("append", "extend"):
                    yield from _targets(func.value)

    def decides(self, node: ast.AST) -> bool:
        """Return whether a node decides on such a value."""
        match node:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                return self.hold(test)
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()) | ast.Set():
                return self.hold(node)
            case ast.Match(subject=value) | ast.Subscript(slice=value):
                return self.hold(value)
            case ast.Dict(keys=keys):
                return any(map(self.hold, keys))
            case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops):
                return any(self.hold(test) for loop in loops for test in loop.ifs)
            case ast.SetComp(elt=value, generators=loops) | ast.DictComp(key=value, generators=loops):
                return self.hold(value) or any(self.hold(test) for loop in loops for test in loop.ifs)
            case ast.BinOp(left=left, op=op, right=right) if not isinstance(op, ast.Add):
                return self.hold(left) != self.hold(right) and not _is_constant(right if self.hold(left) else left)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in COMPARING and self.hold(value):
                return not (isinstance(value, ast.Name) and value.id in self.imported)
            case ast.Call(func=func) if any(map(self.hold, _arguments(node))):
                name = _key(func).removeprefix(".")
                return not (self.hold(func) or name in PRESENTING or name in self.functions)
        return False


def _unbound(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that a script gets by ``exec`` or an import of ``*``."""
    bound, used = set(dir(builtins)) | {"__file__"}, set[str]()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                bound.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound |= {alias.asname or alias.name.partition(".")[0] for alias in names}
    return used - bound


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    every = node.args
    return [each.arg for each in (*every.posonlyargs, *every.args, *every.kwonlyargs)]


def _is_none(node: ast.Compare) -> bool:
    is_identity = all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)
    return is_identity and all(isinstance(one, ast.Constant) and one.value is None for one in node.comparators)


def _is_constant(node: ast.expr) -> bool:
    return not any(isinstance(each, ast.Name | ast.Call) for each in ast.walk(node))


def _key(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def _targets(node: ast.AST) -> Iterator[str]:
    """Yield the names that an assignment to a target changes."""
    if isinstance(node, ast.Name | ast.Attribute):
        yield _key(node)
    elif isinstance(node, ast.Subscript | ast.Starred):
        yield from _targets(node.value)
    elif isinstance(node, ast.Tuple | ast.List):
        for each in node.elts:
            yield from _targets(each)


def _arguments(node: ast.AST) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
