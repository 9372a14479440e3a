"""The tables, keys, methods and commands on the pages of docs/ exist, and their examples run."""

import re
import runpy
import shlex
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from turnwise.agents.rollout.control import GroupView, MemberView, TurnView
from turnwise.console.command_line import app
from turnwise.envs import TurnEnv
from turnwise.records import Status
from turnwise.store.database import open_database
from turnwise.store.schema import metadata
from turnwise.tests.store.making import call, create_run, group, play
from turnwise.trainer.algorithms.algorithm_set import SLOTS
from turnwise.trainer.algorithms.registry import component_names
from turnwise.trainer.algorithms.rollout_control.base import RolloutController
from turnwise.trainer.config.schema import RunConfig
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
STORE = (ROOT / "docs" / "store.md").read_text()
TRAINING = (ROOT / "docs" / "training.md").read_text()
CONTROL = (ROOT / "docs" / "algorithms.md").read_text().split("## Rollout control\n")[1].split("\n## ")[0]
ENVIRONMENTS = (ROOT / "docs" / "environments.md").read_text()
Commands = dict[tuple[str, ...], TyperCommand]


def commands(group: TyperGroup, path: tuple[str, ...] = ()) -> Commands:
    found: Commands = {}
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            found |= commands(command, (*path, name))
        elif isinstance(command, TyperCommand):
            found[*path, name] = command
    return found


ROOT_COMMAND = get_command(app)
assert isinstance(ROOT_COMMAND, TyperGroup)
COMMANDS = commands(ROOT_COMMAND)


def test_every_table_is_on_the_page() -> None:
    listed = {name for row in re.findall(r"^\| (`.*?) \|", STORE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert {name for name in metadata.tables if not name.endswith("_image")} <= listed


def test_the_python_shown_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    database = open_database("sqlite:///runs/turnwise.db", create=True)
    create_run(database, "quickstart")
    call(database, "open_group", group=group("quickstart:0", run="quickstart"))
    play(database, "quickstart:0-0", "quickstart:0", 0, run="quickstart")
    database.close()
    (block,) = re.findall(r"^```python\n(.*?)^```$", STORE, re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    exec(block, found)  # noqa: S102 - the page's own example
    found["database"].close()
    assert found["trajectory"].id == "quickstart:0-0"
    assert found["trajectory"].steps
    assert found["updates"] == []


def test_the_rollout_controller_shown_decides() -> None:
    found = runpy.run_path(str(ROOT / "examples" / "components" / "control.py"))
    controller = found["StopInvalid"](limit=2)
    invalid = TurnView("", "?", 0.0, (), "", False)
    for turns, stops in (((invalid,), 0), ((invalid, replace(invalid, action_valid=True)), 0), ((invalid, invalid), 1)):
        member = MemberView(0, 0, Status.RUNNING, 0.0, turns)
        assert len(controller.decide(GroupView(group(), member, [member]), Random(0))) == stops
    assert set(re.findall(r"^\* `(\w+)`:", CONTROL, re.MULTILINE)) == {*component_names(RolloutController)} - {"none"}


def test_keys_named_on_the_training_page_exist() -> None:
    slots = {base.slot for base in SLOTS}
    for key in re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)(?: = \S+)?`", TRAINING):
        section, _, field = key.partition(".")
        if not field:
            continue
        kind = RunConfig.model_fields[section].annotation
        assert section in slots or field in kind.model_fields, key  # type: ignore[union-attr]
    named = TRAINING.rsplit("chosen by name in the configuration:", 1)[1].split(" and others", 1)[0]
    assert set(re.findall(r"`(\w+)`", named)) <= slots


def test_methods_on_the_environments_page_exist() -> None:
    methods = re.findall(r"^\| `(\w+)\(", ENVIRONMENTS, re.MULTILINE)
    assert len(methods) == 11
    assert all(hasattr(TurnEnv, method) for method in methods)


def test_every_command_and_option_has_a_help_text() -> None:
    for path, command in COMMANDS.items():
        assert command.help, path
        silent = [parameter.name for parameter in command.params if not getattr(parameter, "help", None)]
        assert not silent, (path, silent)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist_with_their_options(page: Path) -> None:
    for line in re.findall(r"`turnwise ([^`]*)`", page.read_text()):
        words = shlex.split(line.split("…")[0])
        path = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in COMMANDS), None)
        assert path is not None, line
        known = {option for parameter in COMMANDS[path].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
