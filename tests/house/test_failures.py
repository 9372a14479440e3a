"""The page on failures names tests that exist, and marks those that only the soak runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "tests" / "failures.md").read_text()
SHOWN = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`( \(soak)?", PAGE)


def test_every_row_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| what happens")]
    assert len(rows) > 12
    assert all("`tests/" in line.rsplit(" | ", 1)[1] for line in rows)


@pytest.mark.parametrize(("path", "name", "soak"), SHOWN, ids=lambda value: str(value).rpartition("/")[2])
def test_a_named_test_exists_and_is_marked_as_on_the_page(path: str, name: str, soak: str) -> None:
    source = (ROOT / path).read_text()
    if not name:
        module = path.removesuffix(".py").replace("/", ".")
        assert f"from turnwise.{module} import" in (ROOT / "tests/soak/soak.py").read_text(), "no part of the soak"
        assert soak
        return
    decorators, found, _ = source.partition(f"\ndef {name}(")
    assert found, f"{path} has no test {name}"
    above = decorators.rstrip().rsplit("\n\n", 1)[-1]
    # A mark of one parameter does not exclude the test from `make test`.
    assert ("\n@pytest.mark.soak" in f"\n{above}") == bool(soak)
