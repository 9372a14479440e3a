"""A custom task: its mistakes are named, what its check reads, and the example of the docs, which runs unchanged."""

import re
from pathlib import Path
from typing import Any

import pytest
from turnwise.envs import make
from turnwise.envs.worlds.desktop.env import DesktopEnv
from turnwise.envs.worlds.desktop.task import SETTINGS_FILE, DesktopTask, EndState
from turnwise.sandbox import Entry, Kind, Tree
from turnwise.tests.envs.worlds.desktop.playing import play, world_of

PAGE = Path(__file__).resolve().parents[4] / "docs" / "shipped_environments" / "desktop.md"


class Given(DesktopEnv):
    """Returns a given value as its task."""

    given: Any = None

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the given value."""
        return self.given


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("click", "must return a DesktopTask, not 'click'"),
        (DesktopTask("g", files={"a.txt": "text"}), "the file `a.txt` must be bytes, not str"),  # type: ignore[dict-item]
        (DesktopTask("g", files={"../a.txt": b""}), "the file `../a.txt` is outside of the home folder"),
        (DesktopTask("g", "mousepad"), "`applications` must be a tuple"),  # type: ignore[arg-type]
        (DesktopTask("g", oracle="done()"), "`oracle` and each of `near_misses`"),  # type: ignore[arg-type]
        (DesktopTask("g", near_misses=("done()",)), "`oracle` and each of `near_misses`"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_in_a_task_is_named(given: object, message: str) -> None:
    env = Given()
    env.given = given
    with pytest.raises((TypeError, ValueError), match=f"^`Given.task`.* ?{re.escape(message)}"):
        env.reset(seed=0)


def test_a_missing_method_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"DesktopEnv does not implement task\(seed, split\)"):
        DesktopEnv().reset(seed=0)


@pytest.mark.usefixtures("desktops")
def test_the_example_task_of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "renaming.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    env: Any = make("renaming:Rename-v0")
    try:
        for seed, split in ((0, "train"), (1, "test")):
            env.reset(seed=seed, options={"split": split})
            assert play(env, env.episode.oracle)[:2] == (1.0, True)
            env.reset(seed=seed, options={"split": split})
            assert not play(env, env.episode.oracle[-1:])[2]["success"]
    finally:
        env.close()


FILES = {
    "a.txt": b"1",
    "folder/b.txt": b"2",
    ".config/x": b"3",
    "folder/.hidden": b"4",
    SETTINGS_FILE: b"[org/xfce/mousepad]\nwrap=true\n[other]\nwrap=false\nno line\n\xff",
}


def test_documents_are_the_files_that_no_application_writes() -> None:
    link, shared = Entry(Kind.LINK, b"a.txt"), Entry(Kind.FOLDER, mode=0o755)
    end = EndState(DesktopTask("x"), world_of({**FILES, "link": link}, ["folder", ".config"]))
    assert end.documents == {
        "a.txt": b"1",
        "folder/b.txt": b"2",
        ".config/x": b"3",
        "folder/.hidden": b"4",
        "link": link,
    }
    assert end.folders == {"folder"}
    assert end.files == FILES
    assert EndState(DesktopTask("x"), world_of({}, ["folder"])).documents == {}
    assert EndState(DesktopTask("x"), world_of({"folder": shared})).documents == {"folder": shared}
    elsewhere = Tree({"tmp/a": Entry(Kind.FILE, b"1", 0o600), "tmp/session/bus": Entry(Kind.LOST, b"a socket")})
    assert EndState(DesktopTask("x"), elsewhere).documents == {"/tmp/a": b"1"}  # noqa: S108


def test_a_document_in_the_place_of_settings_is_a_document() -> None:
    task = DesktopTask("x", files={"a.txt": b"1", SETTINGS_FILE: b"2"})
    assert EndState(task, world_of({SETTINGS_FILE: b"1"})).documents == {SETTINGS_FILE: b"1"}
    assert EndState(task, world_of({SETTINGS_FILE: b"2"})).documents == {}
    moved = EndState(DesktopTask("x", files={"a.txt": b"", "b/": b""}), world_of({".bash_history": b""}))
    assert moved.documents == {".bash_history": b""}, "an empty document"
    assert EndState(DesktopTask("x", files={"b/": b""}), world_of({".bash_history": b""})).documents == {}
    pipe = Entry(Kind.LOST, b"a named pipe")
    assert EndState(task, world_of({SETTINGS_FILE: pipe})).documents == {SETTINGS_FILE: pipe}


def test_settings_are_read_by_schema() -> None:
    end = EndState(DesktopTask("x"), world_of(FILES))
    assert end.settings("org.xfce.mousepad") == {"wrap": "true"}
    assert end.settings("org.none") == {}
    assert EndState(DesktopTask("x"), world_of({})).settings("org.none") == {}
