"""Follow the names of a Python script: imports of the code under test, and values that flow into variables."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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
        path: list[str] = []
        node = node.func if isinstance(node, ast.Call) else ast.Constant(0)
        while isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return False
        path = [*self.names[node.id], *path]
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
