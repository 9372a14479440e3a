"""The server imports the standard library and Jinja only, and runs from any folder."""

import ast
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import turnwise.envs.worlds.web.apps.server
from turnwise.envs.worlds.web.apps.tasks import SITES
from turnwise.envs.worlds.web.apps.worlds import wiki as world_wiki
from turnwise.tests.envs.worlds.web.apps.browser import Browser
from turnwise.tests.envs.worlds.web.apps.running import Served

FOLDER = Path(turnwise.envs.worlds.web.apps.server.__file__).parent
ALLOWED = sys.stdlib_module_names | {"jinja2"}
FILES = sorted(FOLDER.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_only_the_standard_library_jinja_and_itself_are_imported(path: Path) -> None:
    depth = len(path.relative_to(FOLDER).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level <= depth
            assert node.level or (node.module or "").partition(".")[0] in ALLOWED
        if isinstance(node, ast.Import):
            assert all(name.name.partition(".")[0] in ALLOWED for name in node.names)


def command(folder: Path, package: str, *arguments: str) -> list[str]:
    """Return the command of ``computer.driver_client.main_command``, with this Python."""
    program = f"import sys; sys.path[:0] = [{str(folder)!r}]; from {package} import main; main(*sys.argv[1:])"
    return [sys.executable, "-I", "-c", program, *arguments]


def test_it_runs_from_any_folder(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "copied_here", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "world.json").write_text(json.dumps(world_wiki.world(1)))
    argv = command(tmp_path, "copied_here", "wiki", "0", str(tmp_path / "site.db"), str(tmp_path / "world.json"))
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={}, text=True) as process:
        try:
            assert process.stdout
            port = int(process.stdout.readline().removeprefix("ready "))
            with closing(Browser(port)) as browser:
                assert browser.page.first("h1").text == "Open Wiki"
        finally:
            process.kill()


def test_an_unknown_site_is_refused(tmp_path: Path) -> None:
    argv = command(FOLDER.parent, FOLDER.name, "bank", "0", "a", "b")
    ended = subprocess.run(argv, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "unknown site 'bank'" in ended.stderr


@pytest.mark.parametrize("site", SITES)
def test_many_visitors_at_once_are_served(site: str, sites: dict[str, Served]) -> None:
    worlds = {
        name: __import__(f"turnwise.envs.worlds.web.apps.worlds.{name}", fromlist=["world"]).world for name in SITES
    }
    port = sites[site].begin(worlds[site](2))

    def visit(number: int) -> int:
        with closing(Browser(port)) as browser:
            for _ in range(5):
                browser.get("/search" if site != "tracker" else "/issues")
            return browser.statuses.count(200)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(visit, range(8))) == [6] * 8
