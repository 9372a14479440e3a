"""The project file names the store of the commands in its folder and below it."""

import os
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from turnwise.console.commands.evaluate import _store_option
from turnwise.store.database import located
from turnwise.store.project import DEFAULT_STORE

from .conftest import Turnwise


@pytest.fixture
def below(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder two levels below that of a store, the current one."""
    assert store.endswith(f"{tmp_path}/turnwise.db")
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_the_nearest_project_file_names_the_store(turnwise: Turnwise, below: Path, tmp_path: Path) -> None:
    assert turnwise("runs", "list").code == 2
    (tmp_path / "turnwise.toml").write_text('store = "sqlite:///turnwise.db"\n')
    assert "demo" in turnwise("runs", "list").out
    (below / "turnwise.toml").write_text('store = "sqlite:///other.db"\n')
    assert f"no store at {below / 'other.db'}" in turnwise("runs", "list").err
    (below / "turnwise.toml").write_text(f'store = "sqlite:///{tmp_path}/turnwise.db"\n')
    assert "demo" in turnwise("runs", "list").out


@pytest.mark.parametrize("named", ["../../turnwise.db", "sqlite+pysqlite:///../../turnwise.db", "./../../turnwise.db"])
def test_a_relative_path_belongs_to_the_folder_of_the_file(
    turnwise: Turnwise, below: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (below / "turnwise.toml").write_text(f'store = "{named}"\n')
    (below / "c").mkdir()
    monkeypatch.chdir(below / "c")
    assert "demo" in turnwise("runs", "list").out


def test_the_blobs_of_the_store_are_relative_to_the_folder_of_the_file_too(tmp_path: Path) -> None:
    assert (
        located("sqlite:///x.db?blobs=b", tmp_path) == f"sqlite:///{tmp_path}/x.db?blobs={quote_plus(f'{tmp_path}/b')}"
    )
    for kept in ("postgresql://u:p%40@h/n", "sqlite:////x.db"):
        assert located(kept, tmp_path) == kept


def test_a_file_of_another_user_is_ignored_with_a_note(
    turnwise: Turnwise, below: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turnwise.toml").write_text('store = "sqlite:///turnwise.db"\n')
    theirs = below / "turnwise.toml"
    theirs.write_text('store = "sqlite:///other.db"\n')
    real = Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)
        other = (*found[:4], os.geteuid() + 1, *found[5:])
        return os.stat_result(other) if path == theirs else found

    monkeypatch.setattr(Path, "stat", stat)
    ended = turnwise("runs", "list")
    assert "demo" in ended.out
    assert ended.err == (
        f"turnwise: `{theirs}` is ignored, since it belongs to another user: name the store by `--store` or "
        "`TURNWISE_STORE`, or make the file yours\n"
    )
    assert turnwise("runs", "list", "--help").err == ""


def test_the_option_and_the_variable_take_precedence(
    turnwise: Turnwise, below: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (below / "turnwise.toml").write_text('store = "sqlite:///other.db"\n')
    assert "demo" in turnwise("runs", "list", "--store", store).out
    monkeypatch.setenv("TURNWISE_STORE", store)
    assert "demo" in turnwise("runs", "list").out


def test_a_printed_command_omits_the_store_of_the_project(below: Path, tmp_path: Path) -> None:
    (tmp_path / "turnwise.toml").write_text('store = "sqlite:///turnwise.db"\n')
    assert _store_option(f"sqlite:///{tmp_path}/turnwise.db") == ""
    assert _store_option(DEFAULT_STORE) == f" --store {DEFAULT_STORE}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('stor = "sqlite:///x.db"', "`stor`: unknown key (did you mean 'store'?)"),
        ("store = 3", "`store`: must be a text"),
        ("", "`store`: is missing"),
        ("store = ", "is not valid TOML"),
        ('store = "nonsense"', "`store`: 'nonsense' names no store"),
    ],
)
def test_a_wrong_project_file_is_named(turnwise: Turnwise, below: Path, store: str, text: str, message: str) -> None:
    (below / "turnwise.toml").write_text(text)
    ended = turnwise("runs", "list")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "turnwise.toml`" in ended.err
    assert message in ended.err
    for needs_no_store in (("--help",), ("runs", "list", "--help"), ("--version",), ("envs", "list", "TextSite")):
        assert turnwise(*needs_no_store).code == 0
    assert "demo" in turnwise("runs", "list", "--store", store).out
