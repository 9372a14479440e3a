"""The end state is compared completely: documents, folders, settings, windows, display and answer."""

from dataclasses import replace

import pytest
from turnwise.envs.worlds.desktop.spreadsheet import write_workbook
from turnwise.envs.worlds.desktop.task import SETTINGS_FILE, DesktopTask, EndState, Window
from turnwise.envs.worlds.desktop.tasks.expected import Expected, Sheet, Text, same_answer, same_value
from turnwise.sandbox import Entry, Kind
from turnwise.tests.envs.worlds.desktop.playing import world_of

EXPECTED = Expected({"a.txt": b"a\n", "new/b.txt": Text("b")})
FILES = {"a.txt": b"a\n", "new/b.txt": b"b\n"}
END = EndState(DesktopTask("goal"), world_of(FILES, ["new"]))
WINDOW = Window("calc", "galculator", (0, 0, 9, 9), True)
OWN_FOLDER = Entry(Kind.FOLDER, mode=0o700)
KEYFILE = b"[org/xfce/mousepad/preferences/view]\nword-wrap=true\n"


def test_the_expected_end_is_met() -> None:
    assert EXPECTED.met(END)
    own: dict[str, bytes | Entry] = {
        ".cache": OWN_FOLDER,
        ".cache/openbox": OWN_FOLDER,
        ".cache/openbox/openbox.log": b"log",
    }
    assert EXPECTED.met(replace(END, world=world_of({**FILES, **own, "new/b.txt": b"b"}, ["new"])))
    assert EXPECTED.met(replace(END, windows=(WINDOW,), answer="anything"))


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        ({"a.txt": b"a\n"}, ["new"]),
        ({**FILES, "c.txt": b""}, ["new"]),
        ({**FILES, ".c.txt": b""}, ["new"]),
        ({**FILES, ".cache/x": b""}, ["new"]),
        ({**FILES, "a.txt": b"a"}, ["new"]),
        ({**FILES, "a.txt": Entry(Kind.FILE, b"a\n", 0o644)}, ["new"]),
        ({**FILES, "a.txt": Entry(Kind.FILE, b"a\n", 0o600, same_as="new/b.txt")}, ["new"]),
        ({**FILES, "c.txt": Entry(Kind.LINK, b"a.txt")}, ["new"]),
        ({**FILES, "c.txt": Entry(Kind.LOST, b"a named pipe")}, ["new"]),
        ({**FILES, "new/b.txt": b" b"}, ["new"]),
        (FILES, ["new", "more"]),
        (FILES, ["new", ".more"]),
        (FILES, ["new", ".config", ".config/more"]),
        ({**FILES, SETTINGS_FILE: KEYFILE}, ["new"]),
    ],
)
def test_any_other_world_is_not(files: dict[str, bytes | Entry], folders: list[str]) -> None:
    assert not EXPECTED.met(replace(END, world=world_of(files, folders)))


def test_an_end_that_was_given_up_is_not() -> None:
    assert not EXPECTED.met(replace(END, gave_up=True))


NOTE = b"[Trash Info]\nPath=/home/user/old.txt\nDeletionDate=2026-11-26T15:00:00\n"
DELETED = {".local/share/Trash/files/old.txt": b"old", ".local/share/Trash/info/old.txt.trashinfo": NOTE}
OLD = DesktopTask("goal", files={**FILES, "old.txt": b"old"})


def test_the_trash_holds_what_the_task_removes() -> None:
    trashed = replace(END, task=OLD, world=world_of({**FILES, **DELETED}, ["new"]))
    assert EXPECTED.met(trashed)
    assert not replace(EXPECTED, documents={**EXPECTED.documents, "old.txt": b"old"}).met(trashed)
    assert not EXPECTED.met(replace(trashed, task=END.task))
    for path in DELETED:
        part = {name: content for name, content in DELETED.items() if name != path}
        assert not EXPECTED.met(replace(trashed, world=world_of({**FILES, **part}, ["new"])))


def test_a_setting_must_have_its_value() -> None:
    expected = replace(EXPECTED, settings={"org.xfce.mousepad.preferences.view": {"word-wrap": "true"}})
    assert expected.met(replace(END, world=world_of({**FILES, SETTINGS_FILE: KEYFILE}, ["new"])))
    assert not expected.met(
        replace(END, world=world_of({**FILES, SETTINGS_FILE: KEYFILE.replace(b"true", b"false")}, ["new"]))
    )
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
    assert not expected.met(replace(END, gave_up=True, world=world_of({})))


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
