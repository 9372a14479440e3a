"""The floors of the house: imports run only downwards, and light parts import nothing heavy."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "records": set[str](),
    "errors": set[str](),
    "circuit_breaker": set[str](),
    "logs": set[str](),
    "sandbox": {"records", "errors", "circuit_breaker", "logs"},
    "store": {"records", "errors", "migrations"},
    "migrations": {"records", "errors", "store"},
    "envs": {"records", "errors", "sandbox"},
    "agents": {"records", "errors", "logs", "envs", "store"},
    "trainer": {"records", "errors", "circuit_breaker", "logs", "envs", "store", "agents"},
    "console": {"records", "errors", "logs", "sandbox", "envs", "store", "agents", "trainer"},
}
HEAVY = {"torch", "vllm", "ray", "transformers", "playwright"}


def sources(part: str) -> Iterator[Path]:
    return iter([ROOT / f"{part}.py"]) if (ROOT / f"{part}.py").exists() else (ROOT / part).rglob("*.py")


def parts_imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, part) for every import of one of ours, anywhere in a file, wherever it is written."""
    package = ("turnwise", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        targets: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            targets = [(*base, alias.name) for alias in node.names]
        for target in targets:
            if target[0] == "turnwise" and len(target) > 1 and target[1] in MAY_IMPORT:
                yield node.lineno, target[1]


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_run_down_the_floors(part: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {other}"
        for path in sources(part)
        for line, other in parts_imported(path)
        if other != part and other not in MAY_IMPORT[part]
    ]
    assert wrong == []


def test_every_part_is_on_a_floor() -> None:
    parts = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {path.stem for path in ROOT.glob("*.py")}
    assert parts - {"__init__"} == set(MAY_IMPORT)


@pytest.mark.parametrize(
    "modules",
    [
        "turnwise.envs, turnwise.store, turnwise.sandbox, turnwise.trainer.config.loading",
        "turnwise.console.command_line",
    ],
)
def test_light_parts_import_nothing_heavy(modules: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {modules}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "turnwise" in loaded
    assert loaded & HEAVY == set()
