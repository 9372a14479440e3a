"""The import graph of the package, read from the source: every import statement, wherever it is written."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

Module = tuple[str, ...]
"""A dotted name below ``turnwise``, as its parts; a package is named by its ``__init__``."""


class Import(NamedTuple):
    """One import of a module of the package by another."""

    source: Module
    line: int
    target: Module

    def __str__(self) -> str:
        return f"{'/'.join(self.source)}.py:{self.line} imports {'.'.join(self.target)}"


def modules(root: Path, parts: Iterator[str] | tuple[str, ...]) -> dict[Module, Path]:
    """Return every module of the named parts, files and folders, with its path."""
    found: dict[Module, Path] = {}
    for part in parts:
        paths = [root / f"{part}.py"] if (root / f"{part}.py").exists() else sorted((root / part).rglob("*.py"))
        found |= {path.relative_to(root).with_suffix("").parts: path for path in paths}
    return found


def imports(found: Mapping[Module, Path]) -> list[Import]:
    """Return every import among these modules."""
    edges = []
    for source, path in found.items():
        for line, name in _statements(source, path):
            target = _resolve(name, found)
            if target is not None and target != source:
                edges.append(Import(source, line, target))
    return edges


def _statements(source: Module, path: Path) -> Iterator[tuple[int, Module]]:
    package = source[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("turnwise."):
                    yield node.lineno, tuple(alias.name.split("."))[1:]
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = package[: len(package) - node.level + 1] + module
            elif module[:1] == ("turnwise",):
                base = module[1:]
            else:
                continue
            for alias in node.names:
                yield node.lineno, (*base, alias.name)


def _resolve(name: Module, found: Mapping[Module, Path]) -> Module | None:
    """Return the module that a dotted name lies in: the name itself, or the longest prefix that is a module."""
    while name:
        for module in (name, (*name, "__init__")):
            if module in found:
                return module
        name = name[:-1]
    return None


def sibling_cycles(edges: list[Import]) -> list[list[Import]]:
    """Return the cycles among siblings of every package: two modules or sub-packages that reach each other.

    A module that imports from the ``__init__`` of a package around it counts as an import of that ``__init__``, so a
    package that re-exports its modules is part of a cycle if one of them uses the re-export.
    """
    levels: dict[Module, dict[str, dict[str, Import]]] = {}
    for edge in edges:
        shared = 0
        while edge.source[shared] == edge.target[shared]:
            shared += 1
        package = edge.source[:shared]
        levels.setdefault(package, {}).setdefault(edge.source[shared], {})[edge.target[shared]] = edge
    return [cycle for graph in levels.values() if (cycle := _cycle(graph))]


def _cycle(graph: Mapping[str, Mapping[str, Import]]) -> list[Import]:
    """Return the imports of one cycle, or nothing: what is left when modules that import nothing left are removed."""
    left = {name: dict(targets) for name, targets in graph.items()}
    while True:
        ends = [name for name, targets in left.items() if not any(target in left for target in targets)]
        if not ends:
            return [edge for targets in left.values() for target, edge in targets.items() if target in left]
        for name in ends:
            del left[name]
