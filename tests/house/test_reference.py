"""The generated pages of the documentation are current, and every key is explained."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

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
    assert re.findall(r"^\| (`.*`) \|.*\|\s+\|$", page, re.MULTILINE) == []
