"""The end state of an episode, as a check reads it."""

from turnwise.envs.desktop.task import SETTINGS_FILE, DesktopTask, EndState

FILES = {
    "a.txt": b"1",
    "folder/b.txt": b"2",
    ".config/x": b"3",
    "folder/.hidden": b"4",
    SETTINGS_FILE: b"[org/xfce/mousepad]\nwrap=true\n[other]\nwrap=false\nno line\n\xff",
}


def test_documents_are_the_files_without_hidden_ones() -> None:
    assert EndState(DesktopTask("x"), FILES).documents == {"a.txt": b"1", "folder/b.txt": b"2"}


def test_settings_are_read_by_schema() -> None:
    end = EndState(DesktopTask("x"), FILES)
    assert end.settings("org.xfce.mousepad") == {"wrap": "true"}
    assert end.settings("org.none") == {}
    assert EndState(DesktopTask("x"), {}).settings("org.none") == {}
