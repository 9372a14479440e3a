"""Text of an agent can only appear on a terminal; it cannot control the terminal."""

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from turnwise.console.terminal.output import print_fields
from turnwise.console.terminal.sanitize import cell, indented, one_line, sanitize, wrapped

TRICKS = [
    *("\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1bc", "\x9b2J", "\r", "\x08", "\u202e", "\ud800"),
    *("[bold red]", "[/]", "[link=file:///etc]x[/link]", ":smile:", "\x1b", "\x1bP", "\x90", "\x9c"),
]
HOSTILE = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(TRICKS)), max_size=12).map("".join)


@given(HOSTILE)
def test_only_newline_and_tab_remain_of_control_characters(text: str) -> None:
    cleaned = sanitize(text)
    assert {unicodedata.category(char) for char in cleaned if char not in "\n\t"} <= {
        *("Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No"),
        *("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Co", "Cn"),
    }
    cleaned.encode()


@given(HOSTILE)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert sanitize(sanitize(text)) == sanitize(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text


@given(HOSTILE, st.integers(2, 40))
def test_a_line_fits_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert not set(line) & set("\n\t\r")


@given(HOSTILE)
def test_a_color_terminal_gets_no_escape_of_an_agent(text: str) -> None:
    shown = io.StringIO()
    table = Table(box=None, show_header=False)
    table.add_row(cell(text))
    Console(file=shown, force_terminal=True, color_system="truecolor", width=200).print(table)
    assert "\x1b" not in shown.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[31mgone\x1b[0m", "gone"),
        ("\x1b]0;root@host\x07still here", "still here"),
        ("safe\rspoof", "safespoof"),
        ("price \u202e321", "price 321"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
    ],
)
def test_known_escape_sequences_are_removed(text: str, shown: str) -> None:
    assert sanitize(text) == shown


@given(HOSTILE)
def test_further_lines_begin_with_a_gutter(text: str) -> None:
    first, *others = indented(text, "| ").split("\n")
    assert all(line.startswith("| ") for line in others)
    assert "\n".join([first, *(line.removeprefix("| ") for line in others)]) == sanitize(text)


@given(HOSTILE, st.sampled_from(["| ", " " * 30 + "  | "]), st.integers(8, 40), st.integers(0, 5))
def test_a_wrapped_line_fits_the_width_behind_the_gutter(text: str, gutter: str, width: int, start: int) -> None:
    first, *others = lines = wrapped(indented(text, gutter), gutter, width, start).split("\n")
    assert all(line.startswith(("| ", "   ")) for line in others)
    assert cell_len(first) + start <= width
    assert all(cell_len(line) <= width for line in lines)


def test_wrapping_keeps_the_text() -> None:
    assert wrapped("a\tb", "| ", 80) == "a       b"
    assert wrapped("abcdefgh", "| ", 5) == "abcde\n| fgh"
    assert wrapped("abcdefgh", "| ", 5, start=3) == "ab\n| cde\n| fgh"
    assert wrapped("\u4f60\u597d\u4f60", "| ", 4) == "\u4f60\u597d\n| \u4f60"


@pytest.mark.parametrize("name", ["\x1b[2J\x1b]0;owned\x07status", "\u202estatus", "\ud800status", "sta\x9b2Jtus"])
def test_a_name_is_shown_as_inert_as_a_value(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({name: name, "inner": {name: 1.0}})
    assert capsys.readouterr().out == "status  status\ninner   status 1\n"


def test_a_line_inside_a_value_or_name_is_not_output_of_turnwise(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"note\nsuccess  True": "one\nsuccess  True", "success": "False"})
    assert capsys.readouterr().out.splitlines() == [
        "note success True  one",
        "                   | success  True",
        "success            False",
    ]
