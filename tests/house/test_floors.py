"""Imports follow the floors: downwards only, without a cycle; light parts import nothing heavy."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from turnwise.tests.house.import_graph import Import, imports, modules, sibling_cycles

ROOT = Path(__file__).resolve().parents[2]
FLOORS = {
    "records": set[str](),
    "errors": set[str](),
    "base": {"records", "errors"},
    "sandbox": {"records", "errors", "base"},
    "store": {"records", "errors", "base", "migrations"},
    "migrations": {"records", "errors", "store"},
    "envs": {"records", "errors", "base", "sandbox", "store"},
    "agents": {"records", "errors", "base", "envs", "store"},
    "trainer": {"records", "errors", "base", "envs", "store", "agents"},
    "console": {"records", "errors", "base", "sandbox", "envs", "store", "agents", "trainer"},
    "api": {"store", "trainer"},
    "__main__": {"console"},
}
"""The parts that each part may import."""
INNER_FLOORS = {
    "trainer": [
        {"telemetry", "failpoints", "shutdown"},
        {"algorithms"},
        {"config"},
        {"context"},
        {"learner"},
        {"warmup", "rollout"},
        {"cluster", "planning"},
        {"preflight"},
        {"evaluation"},
        {"run"},
    ],
    "agents": [{"model_folder", "errors"}, {"tokens", "weights"}, {"engine"}, {"rollout"}, {"players"}],
    "sandbox": [
        {"spec", "errors"},
        {"sandbox", "transport"},
        {"backends"},
        {"pool"},
        {"lease", "provider"},
        {"cluster"},
        {"selfcheck"},
    ],
    "store": [
        {"errors", "database_errors"},
        {"schema"},
        {"content"},
        {"operations", "migrate"},
        {"database"},
        {"queries", "run_lock"},
        {"maintenance"},
        {"writing", "exchange"},
        {"run_store"},
    ],
    "envs": [
        {"draws", "errors", "options", "spaces"},
        {"base", "splits"},
        {"episode"},
        {"dataset"},
        {"registry"},
        {"tasks", "sandboxes"},
        {"runner"},
        {"authoring", "worlds"},
    ],
    "console": [{"terminal"}, {"usage"}, {"failure", "options"}, {"viewer"}, {"commands"}, {"command_line"}, {"app"}],
}
"""The folders of a part, from the lowest floor to the highest; folders of one set may import each other."""
WORLDS = ("envs", "worlds")
API_HEADING = "## The public API of worlds"
HEAVY = {"torch", "vllm", "ray", "transformers", "playwright", "sqlalchemy"}
MAX_ENTRIES = 20
"""Maximum number of entries per folder, without ``__init__.py``."""


@pytest.fixture(scope="module")
def graph() -> list[Import]:
    return imports(modules(ROOT, tuple(FLOORS)))


@pytest.mark.parametrize("part", FLOORS)
def test_imports_run_down_the_floors(graph: list[Import], part: str) -> None:
    allowed = FLOORS[part] | {part}
    wrong = [str(edge) for edge in graph if edge.source[0] == part and edge.target[0] not in allowed]
    assert wrong == []


@pytest.mark.parametrize("part", INNER_FLOORS)
def test_imports_run_down_the_floors_inside_a_part(graph: list[Import], part: str) -> None:
    height = {folder: floor for floor, folders in enumerate(INNER_FLOORS[part]) for folder in folders}
    inside = [edge for edge in graph if edge.source[0] == edge.target[0] == part]
    named = [(edge, edge.source[1], edge.target[1]) for edge in inside]
    wrong = [str(edge) for edge, a, b in named if a in height and b in height and a != b and height[a] < height[b]]
    assert {end for _, *ends in named for end in ends} >= height.keys() - {"errors", "spec", "failpoints", "stores"}
    assert wrong == []


def test_worlds_are_content(graph: list[Import]) -> None:
    """Nothing outside imports a world, and the page lists the modules of the core that worlds import."""
    edges = [(edge, edge.source[:2] == WORLDS, edge.target[:2] == WORLDS) for edge in graph]
    assert [str(edge) for edge, from_world, to_world in edges if to_world and not from_world] == []
    of_store = [edge for edge, from_world, _ in edges if edge.source[0] == "envs" and edge.target[0] == "store"]
    assert {edge.source[:2] for edge in of_store} == {WORLDS}
    used = {module_name(edge.target) for edge, from_world, to_world in edges if from_world and not to_world}
    page = (ROOT / "docs/environments.md").read_text().partition(API_HEADING)[2].partition("\n#")[0]
    assert set(re.findall(r"`turnwise\.([a-z_.]+)`", page)) == used


def module_name(module: tuple[str, ...]) -> str:
    return ".".join(module).removesuffix(".__init__")


def test_no_import_cycle_exists(graph: list[Import]) -> None:
    assert [[str(edge) for edge in cycle] for cycle in sibling_cycles(graph)] == []


def test_a_circle_is_found() -> None:
    down = Import(("envs", "a", "x"), 1, ("envs", "b", "y"))
    up = Import(("envs", "b", "z"), 2, ("envs", "a", "__init__"))
    assert sibling_cycles([down]) == []
    assert sibling_cycles([down, up]) == [[down, up]]


def test_the_guest_imports_nothing_of_the_host(graph: list[Import]) -> None:
    assert [str(edge) for edge in graph if edge.source[:2] == ("sandbox", "guest") != edge.target[:2]] == []


def test_every_part_is_on_a_floor() -> None:
    parts = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {path.stem for path in ROOT.glob("*.py")}
    assert parts - {"__init__"} == set(FLOORS)


def test_every_folder_is_read_at_a_glance() -> None:
    folders = {path.parent for path in modules(ROOT, tuple(FLOORS)).values()} - {ROOT}
    for top in ("benchmarks", "docs", "examples", "migrations", "tests", "tools"):
        folders |= {path for path in (ROOT / top, *(ROOT / top).rglob("*")) if path.is_dir() and is_ours(path)}
    full = {
        str(folder.relative_to(ROOT)): entries for folder in folders if len(entries := listing(folder)) > MAX_ENTRIES
    }
    assert full == {}


def is_ours(path: Path) -> bool:
    """Return whether no part of the path below the repository is hidden or a cache."""
    return not any(part.startswith((".", "__")) for part in path.relative_to(ROOT).parts)


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("__init__.py", "__pycache__"))


@pytest.mark.parametrize(
    "modules_named",
    [
        "turnwise.envs, turnwise.store, turnwise.sandbox, turnwise.trainer.config.loading",
        "turnwise.console.command_line, turnwise.agents.demonstrations",
    ],
)
def test_light_parts_import_nothing_heavy(modules_named: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", f"import {modules_named}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "turnwise" in loaded
    assert loaded & HEAVY == set()
