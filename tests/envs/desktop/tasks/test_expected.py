"""The end state is compared completely: documents, folders, settings, windows, display and answer."""

from dataclasses import replace
from typing import Any

import pytest
from turnwise.envs.desktop.spreadsheet import write_workbook
from turnwise.envs.desktop.task import SETTINGS_FILE, DesktopTask, EndState, Window
from turnwise.envs.desktop.tasks.expected import Expected, Sheet, Text, same_answer, same_value

EXPECTED = Expected({"a.txt": b"a\n", "new/b.txt": Text("b")})
END = EndState(DesktopTask("goal"), {"a.txt": b"a\n", "new/b.txt": b"b\n"}, frozenset({"new"}))
WINDOW = Window("calc", "galculator", (0, 0, 9, 9), True)
KEYFILE = b"[org/xfce/mousepad/preferences/view]\nword-wrap=true\n"


def test_the_expected_end_is_met() -> None:
    assert EXPECTED.met(END)
    assert EXPECTED.met(replace(END, files={**END.files, ".cache/x": b"", "new/b.txt": b"b"}))
    assert EXPECTED.met(replace(END, windows=(WINDOW,), answer="anything"))


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"a.txt": b"a\n"}},
        {"files": {**END.files, "c.txt": b""}},
        {"files": {**END.files, "a.txt": b"a"}},
        {"files": {**END.files, "new/b.txt": b" b"}},
        {"folders": frozenset({"new", "more"})},
        {"gave_up": True},
        {"files": {**END.files, SETTINGS_FILE: KEYFILE}},
    ],
)
def test_any_other_end_is_not(changes: dict[str, Any]) -> None:
    assert not EXPECTED.met(replace(END, **changes))


def test_a_setting_must_have_its_value() -> None:
    expected = replace(EXPECTED, settings={"org.xfce.mousepad.preferences.view": {"word-wrap": "true"}})
    assert expected.met(replace(END, files={**END.files, SETTINGS_FILE: KEYFILE}))
    assert not expected.met(replace(END, files={**END.files, SETTINGS_FILE: KEYFILE.replace(b"true", b"false")}))
    assert not expected.met(END)


def shown(window: str, flags: tuple[str, ...]) -> EndState:
    top = {"role": "window", "name": window, "depth": 0}
    return replace(END, nodes=(top, {"role": "textbox", "name": "", "value": "12.50", "depth": 2, "flags": flags}))


def test_the_display_is_the_calculators() -> None:
    expected = replace(EXPECTED, display=12.5)
    assert expected.met(shown("galculator", ("readonly",)))
    assert not replace(EXPECTED, display=12).met(shown("galculator", ("readonly",)))
    assert not expected.met(shown("notes.txt - Mousepad", ("readonly",)))
    assert not expected.met(shown("galculator", ("focused",)))
    assert not expected.met(END)


def test_another_window_does_not_replace_the_calculators() -> None:
    expected = replace(EXPECTED, display=12.5)
    dialog = {"role": "dialog", "name": "galculator", "depth": 0}
    top, right = shown("galculator", ("readonly",)).nodes
    wrong = {**right, "value": "0"}
    assert not expected.met(replace(END, nodes=(dialog, right)))
    assert not expected.met(replace(END, nodes=(top, right, top, wrong)))
    assert not expected.met(replace(END, nodes=(dialog, right, top, wrong)))
    assert expected.met(replace(END, nodes=(dialog, wrong, top, right)))


def test_windows_and_answer_count_if_they_are_given() -> None:
    assert replace(EXPECTED, windows=("galculator",)).met(replace(END, windows=(WINDOW,)))
    assert not replace(EXPECTED, windows=("galculator",)).met(replace(END, windows=(WINDOW, WINDOW)))
    assert replace(EXPECTED, answer="b.txt").met(replace(END, answer=" 'B.txt'. "))
    assert not replace(EXPECTED, answer="b.txt").met(END)


def test_a_task_that_cannot_be_done_must_be_given_up() -> None:
    expected = replace(EXPECTED, feasible=False)
    assert expected.met(replace(END, gave_up=True))
    assert not expected.met(END)
    assert not expected.met(replace(END, gave_up=True, files={}, folders=frozenset()))


def test_a_sheet_compares_values_and_the_presence_of_formulas() -> None:
    rows = (("Item", "Price"), ("lamp", 0.3))
    assert Sheet(rows).matches(write_workbook(rows))
    assert Sheet(rows).matches(write_workbook((("Item", "Price"), ("lamp", 0.1 + 0.2))))
    assert not Sheet(rows).matches(write_workbook(rows, "Other"))
    assert not Sheet(rows).matches(write_workbook((*rows, ("x",))))
    assert not Sheet(rows).matches(write_workbook(rows[:1]))
    assert not Sheet(rows, frozenset({"B2"})).matches(write_workbook(rows))
    assert not Sheet(rows).matches(b"")


def test_values_and_answers() -> None:
    assert same_value("2.50", 2.5)
    assert not same_value("2.5x", 2.5)
    assert not same_value("nan", "1")
    assert not same_value("1e999999999", 5)
    assert same_answer("7", "7.0")
    assert not same_answer("7", "")
