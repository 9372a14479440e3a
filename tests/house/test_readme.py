"""Run the commands of the README as written, in order, as a user whose environment sees this checkout."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from turnwise.envs import make

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN_SECONDS = 240


@dataclass(frozen=True)
class User:
    """A folder to work in, and a ``PATH`` that finds ``turnwise`` and ``pip``."""

    folder: Path
    environment: dict[str, str]

    def run(self, script: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SHOWN_SECONDS,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout


def blocks(heading: str) -> Iterator[tuple[str, str]]:
    section = README.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    return ((match[1], match[2]) for match in BLOCK.finditer(section))


def follow(user: User, heading: str) -> list[str]:
    """Do what a section shows: a toml block is the file its first line names, a shell block is run."""
    outputs = []
    for language, text in blocks(heading):
        if language == "toml":
            (user.folder / text.splitlines()[0].removeprefix("# ")).write_text(text)
        else:
            assert language == "sh"
            outputs.append(user.run(text))
    return outputs


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> User:
    folder = tmp_path_factory.mktemp("user")
    venv.create(folder / "venv", symlinks=True)
    bin_folder = folder / "venv" / "bin"
    site_packages = folder / "venv" / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    shared = sysconfig.get_path("purelib")
    (site_packages / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
    for program, module in (("turnwise", "turnwise.console.app"), ("pip", "pip")):
        script = bin_folder / program
        script.write_text(f'#!/bin/sh\nexec "{bin_folder}/python" -m {module} "$@"\n')
        script.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    quiet = {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_DEPS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    path = f"{bin_folder}:{os.environ['PATH']}"
    return User(work, {**os.environ, **quiet, "PATH": path, "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def registered(user: User) -> list[str]:
    return follow(user, "Register an environment")


@pytest.fixture(scope="module")
def trained(user: User, registered: list[str]) -> list[str]:
    return follow(user, "Train on it")


@pytest.mark.slow
def test_register(registered: list[str]) -> None:
    assert "success" in registered[0]


@pytest.mark.slow
def test_train(user: User, trained: list[str]) -> None:
    assert "finished" in trained[-1]
    assert json.loads(user.run("turnwise runs show colors --json"))["updates"] == 3


@pytest.mark.slow
@pytest.mark.usefixtures("trained")
def test_replay(user: User) -> None:
    assert "20 of 20 match" in follow(user, "Replay a trajectory")[0]


@pytest.mark.parametrize("heading", ["Register an environment", "Train on it", "Replay a trajectory"])
def test_each_job_is_shown_in_ten_lines(heading: str) -> None:
    assert all(len(text.strip().splitlines()) <= 10 for _, text in blocks(heading))


def test_the_commands_shown_first_exist() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"^make (\w+)", README, re.MULTILINE)) <= set(targets)


def test_every_link_to_a_file_of_the_repository_resolves() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text()):
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(file), f"{page.name}: {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_path_of_the_table_of_changes_exists() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text().split("\n## I want to change", 1)[1].split("\n## ", 1)[0]
    paths = re.findall(r"`([a-z_]+(?:/[a-z_*.]*)+|[a-z_]+\.py)`", table)
    assert len(paths) > 20
    assert [path for path in paths if not any(ROOT.rglob(path.rstrip("/")))] == []


def test_the_episode_shown_is_the_oracles() -> None:
    shown = next(match[2] for match in BLOCK.finditer(README) if match[1] == "text")
    env: Any = make("turnwise/TextSite-v0")
    found = [env.reset(seed=0)[0]]
    over = False
    while not over:
        action = env.oracle()
        observation, reward, over, _, info = env.step(action)
        found.append(f"  > {action:18} {observation:26} reward {reward:g}{', success' * info['success']}")
    assert shown.splitlines() == found


def test_configurations_shown_are_valid_toml() -> None:
    shown = [match[2] for match in BLOCK.finditer(README) if match[1] == "toml"]
    assert [tomllib.loads(text)["name"] for text in shown] == ["colors"]
