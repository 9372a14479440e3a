"""``new`` writes a working package."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest
from turnwise.console.commands.envs import Kind
from turnwise.envs.authoring.new import KINDS, ScaffoldError, env_id, new


@pytest.mark.parametrize("kind", KINDS)
def test_the_environment_is_short_and_shows_each_method(kind: str, tmp_path: Path) -> None:
    root = new("two-words", tmp_path, kind)
    source = (root / "two_words" / "env.py").read_text()
    assert len([line for line in source.splitlines() if line.strip()]) <= 60
    assert max(map(len, source.splitlines())) <= 120
    assert [word for word in ("tasks(", "oracle(", "instructions", "# ") if word not in source] == []
    assert any(isinstance(node, ast.ClassDef) and node.name == "TwoWordsEnv" for node in ast.parse(source).body)
    assert env_id("two-words") == "two_words/TwoWords-v0"


def test_the_command_offers_each_kind() -> None:
    assert set(get_args(Kind)) == set(KINDS)
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("* `--kind`: A"))
    assert [kind for kind in KINDS if f"`{kind}`" not in line] == []


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown `kind` 'rows'; choose from turns, dataset, sandbox, site"):
        new("mine", tmp_path, "rows")


SITE_FILES = ("site/server.py", "site/form.html", "site/css/a.css", "my-pages/index.html")


@dataclass(frozen=True)
class Installed:
    """A package of each kind, all installed in one folder by one ``pip``, which takes seconds."""

    roots: Mapping[str, Path]
    environment: Mapping[str, str]
    """The variables of a process that finds the packages."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("scaffolds")
    # As in this checkout, whose options must not apply to the tests of the packages.
    (folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n')
    roots = {kind: new(f"scaffolded-{kind}", folder, kind) for kind in KINDS}
    for path in SITE_FILES:
        file = roots["site"] / "scaffolded_site" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    site = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": str(site)}
    subprocess.run([*pip, "--target", str(site), *map(str, roots.values())], check=True, timeout=120, env=environment)
    return Installed(roots, environment)


@pytest.mark.slow
def test_the_files_of_a_site_are_installed_with_it(installed: Installed) -> None:
    package = Path(installed.environment["PYTHONPATH"]) / "scaffolded_site"
    assert [path for path in SITE_FILES if not (package / path).is_file()] == []


@pytest.mark.slow
def test_each_kind_installs_and_registers_by_entry_point(installed: Installed) -> None:
    show = "from turnwise.envs import all_ids; print(*all_ids())"
    listed = subprocess.run(
        [sys.executable, "-c", show], check=True, timeout=60, capture_output=True, text=True, env=installed.environment
    )
    assert {env_id(f"scaffolded-{kind}") for kind in KINDS} <= set(listed.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["turns", "dataset", *(pytest.param(kind, marks=pytest.mark.docker) for kind in ("sandbox", "site"))],
)
def test_it_passes_its_own_tests(kind: str, installed: Installed) -> None:
    chosen = "not contract" if kind == "site" else ""  # the checks of a site take a minute
    root = installed.roots[kind]
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, str(root / "tests")],
        check=True,
        timeout=120,
        env=installed.environment,
        cwd=root,
    )


FINDER = """
import importlib.util
import sys


class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, {file!r}) if name == "shadowed" else None


if {everywhere} or "turnwise.envs.authoring.other_process" not in sys.orig_argv:
    sys.meta_path.append(Editable)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("everywhere", "verdict"), [(True, "passed "), (False, "failed .*no run can")])
def test_another_process_must_find_a_package_that_the_folder_of_its_project_would_hide(
    tmp_path: Path, everywhere: bool, verdict: str
) -> None:
    """The finder of an editable installation is asked after the folders of ``sys.path``."""
    root, site = new("shadowed", tmp_path), tmp_path / "site"
    about = site / "shadowed-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: shadowed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[turnwise.envs]\nshadowed = shadowed\n")
    (site / "sitecustomize.py").write_text(
        FINDER.format(file=str(root / "shadowed" / "__init__.py"), everywhere=everywhere)
    )
    program = Path(sys.executable).with_name("turnwise")
    done = subprocess.run(
        [program, "envs", "check", env_id("shadowed")],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )
    assert done.returncode == (not everywhere), done.stdout + done.stderr
    assert re.search(f"another process +{verdict}", done.stdout, re.DOTALL), done.stdout


@pytest.mark.parametrize("name", ["", "3d", "a b", "class", "../up", "json", "turnwise", "numpy", "my-", "my_"])
def test_an_invalid_name_is_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(ScaffoldError):
        new(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(ScaffoldError, match="exists already"):
        new("mine", tmp_path)
