"""The project file names the store of the commands in its folder and below it."""

from pathlib import Path

import pytest
from turnwise.console.commands.evaluate import _store_option
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
    ],
)
def test_a_wrong_project_file_is_named(turnwise: Turnwise, below: Path, text: str, message: str) -> None:
    (below / "turnwise.toml").write_text(text)
    ended = turnwise("runs", "list")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "turnwise.toml`" in ended.err
    assert message in ended.err
