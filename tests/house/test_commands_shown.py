"""The program takes every command of README.md and docs/, and the files, environments and keys that they name exist."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from turnwise.console.command_line import app
from turnwise.envs.registry import all_ids
from turnwise.tests.house.shown import PAGES, ROOT, Shown, blocks, commands_of, files_of
from turnwise.trainer.config.loading import load_config, parse_config
from typer.core import TyperGroup
from typer.main import get_command

PROGRAM = get_command(app)
SHOWN = [one for page in [*PAGES, ROOT / "CONTRIBUTING.md"] for one in commands_of(page)]
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
OTHER_PROGRAMS = {".", "export", "pip", "pre-commit", "python", "python3", "sbatch"}
FOLDERS = ("benchmarks/", "examples/", "tests/", "tools/")
OTHER_TOML = {"instruction", "project", "store"}
"""Top keys of files that are no configuration of a run."""


def parse(words: list[str]) -> tuple[str, dict[str, Any]]:
    """Return a command's name and parameters, as the program reads its words."""
    command = PROGRAM
    path: list[str] = []
    while isinstance(command, TyperGroup):
        path.append(words[len(path)])
        command = command.commands[path[-1]]
    return " ".join(path), command.make_context("turnwise", words[len(path) :]).params


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{Path(shown.page).stem}: {shown.text}")
def test_a_command_can_be_typed(shown: Shown, tmp_path: Path) -> None:
    files = {one.name: one.read_text() for one in (ROOT / "examples").glob("*.py")} | files_of(ROOT / shown.page)
    for program, *words in shown.calls():
        assert all((ROOT / word).exists() for word in (program, *words) if word.startswith(FOLDERS)), shown.text
        for module, name in re.findall(r" ([a-z_]+):([a-zA-Z][\w-]*)", shown.text):
            assert name in files[f"{module}.py"], shown.text
        for env_id in re.findall(r"turnwise/\S+-v0", shown.text):
            assert env_id in all_ids(), env_id
        if program == "turnwise":
            name, given = parse(words)
            if name in ("train", "plan"):
                file = ROOT / given["config"]
                if not file.exists():
                    file = tmp_path / file.name
                    file.write_text(files[file.name])
                load_config(file, given["overrides"])
        elif program == "make":
            assert words[0] in TARGETS
        else:
            assert program.rpartition("/")[2] in OTHER_PROGRAMS or program.startswith("tools/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_keys_shown_exist(page: Path) -> None:
    for language, text in blocks(page):
        if language == "toml" and not OTHER_TOML & (shown := tomllib.loads(text)).keys():
            parse_config({"name": "shown", "environments": [{"id": "turnwise/TextSite-v0"}]} | shown)


def test_the_files_named_in_the_text_exist() -> None:
    for page in PAGES:
        for path in re.findall(r"[` ]((?:benchmarks|examples|tools)/[\w./]+)", page.read_text()):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_readme_and_docs_are_short() -> None:
    words = [word for page in PAGES for word in page.read_text().split() if re.search(r"\w", word)]
    assert len(words) <= 25_000
