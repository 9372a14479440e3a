"""The generated pages of the documentation are current, and every key is explained."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from turnwise.console.command_line import app
from typer import Context
from typer.main import get_command

ROOT = Path(__file__).resolve().parents[2]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = generator()


@pytest.mark.parametrize("name", REFERENCE.PAGES)
def test_page_is_current(name: str) -> None:
    written = (ROOT / "docs" / name).read_text()
    assert written == REFERENCE.markdown(REFERENCE.PAGES[name]), "run `make docs`"


@pytest.mark.parametrize("name", REFERENCE.PAGES)
def test_every_key_and_option_is_explained(name: str) -> None:
    page = REFERENCE.markdown(REFERENCE.PAGES[name])
    assert re.findall(r"^\* `.*:\s*$", page, re.MULTILINE) == []


def test_the_text_of_two_opposite_options_explains_both() -> None:
    for path, command in REFERENCE.commands(get_command(app)):
        for option in command.params:
            for name in (one for one in option.secondary_opts if not one.startswith("--no-")):
                verbs = [word.strip("-").partition("-")[0] for word in (*option.opts, name)]
                assert all(verb in option.help.casefold() for verb in verbs), (path, name)


def test_an_argument_has_the_same_name_in_the_page_and_in_its_usage() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    for path, command in REFERENCE.commands(get_command(app)):
        section = page.split(f"## `{' '.join(path)}`\n", 1)[1].split("\n## ", 1)[0]
        usage = command.get_usage(Context(command)).replace("...", "")
        shown = re.findall(r"\[?([A-Za-z.]+)\]?", usage.partition("[OPTIONS]")[2])
        explained = re.findall(r"^\* `([^-`][^`]*)`:", section.replace("...", ""), re.MULTILINE)
        assert shown == explained, usage
        assert "[[" not in usage
