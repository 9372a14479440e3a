"""Patterns that no file of this repository may contain."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = (
    "agents",
    "base",
    "console",
    "envs",
    "migrations",
    "sandbox",
    "store",
    "trainer",
    "benchmarks",
    "examples",
    "tools",
)
TEXT = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".lock", ".svg", ".ini", ".mako", ""}
INDEX_HOSTS = re.compile(r"py" r"pi\.org|python" r"hosted\.org|npm" r"js\.(org|com)|deb\.deb" r"ian\.org")
UNSAFE = re.compile(
    r"^\s*(import|from) (pickle|cPickle|dill|cloudpickle|shelve|marshal)\b"
    r"|\bpickle\.loads?\(|torch\.(load|save)\(|allow_pickle\s*=\s*True|yaml\.load\("
)
BLIND = re.compile(r"suppress\((Base)?Exception\)")
"""Ruff's BLE rule covers ``except`` only."""


def files() -> list[Path]:
    tops = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".coverage"]
    folders = [ROOT / name for name in (*SHIPPED, "tests", "docs", ".ci")]
    nested = [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]
    return [path for path in tops + nested if path.suffix in TEXT and "__pycache__" not in path.parts]


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_unpickles_stored_data() -> None:
    ours = [path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests"]
    assert len(ours) > 20
    assert lines_with(UNSAFE, ours) == []


def test_no_exception_is_suppressed_without_a_log_line() -> None:
    ours = [path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] != "tests"]
    assert lines_with(BLIND, ours) == []


def test_no_address_of_a_package_index_is_written_down() -> None:
    assert lines_with(INDEX_HOSTS, files()) == []


def test_no_source_file_is_too_long() -> None:
    sources = [path for path in files() if path.suffix == ".py" and path.parent.name != "versions"]
    assert {path.name: n for path in sources if (n := len(path.read_text().splitlines())) > 500} == {}
