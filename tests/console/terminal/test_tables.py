"""A table keeps its words whole: on a narrow terminal it leaves out columns, or becomes lines of names and values."""

import pytest
from turnwise.console.terminal.sanitize import sanitize
from turnwise.console.terminal.tables import print_table

COLUMNS = ("run", "status", "environment", "error", "nothing")
ROWS = [
    ("quickstart", "finished", "turnwise/TextSite-v0", "the disk has no room left", None),
    ("日本", "failed", None, None, ""),
]
WIDE = """\
run         status    environment           error
quickstart  finished  turnwise/TextSite-v0  the disk has no room left
日本        failed
"""
NARROWER = """\
run         status    environment           error
quickstart  finished  turnwise/TextSite-v0  the disk has
                                            no room left
日本        failed
"""
NARROW = """\
run         status
quickstart  finished
日本        failed
not shown, for the width: environment, error
"""
LINES = """\
run          quickstart
status       finished
environment  turnwise/TextSite-v0
error        the disk has no room left

run     日本
status  failed
"""


@pytest.mark.parametrize(
    ("width", "required", "expected"), [(0, 0, WIDE), (80, 0, WIDE), (56, 2, NARROWER), (40, 2, NARROW), (40, 0, LINES)]
)
def test_a_table_fits_the_width(
    width: int,
    required: int,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1" if width else "0")
    monkeypatch.setenv("COLUMNS", str(width or 30))
    print_table(COLUMNS, ROWS, empty="none", required=required)
    assert sanitize(capsys.readouterr().out) == expected


def test_an_empty_table_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [], empty="no run")
    assert capsys.readouterr().out == "no run\n"
