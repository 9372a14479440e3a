"""A folder that cannot have the sockets of sandboxes is reported with the variable that changes it."""

import stat
import tempfile
from pathlib import Path

import pytest
from turnwise.sandbox.errors import NoEngine
from turnwise.sandbox.transport.listener import make_sockets_folder


def test_the_folder_cannot_be_listed_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TURNWISE_SOCKETS", folder)
        made = make_sockets_folder()
        assert made.parent == Path(folder)
        assert stat.S_IMODE(made.stat().st_mode) == 0o711


def test_missing_and_long_folders_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNWISE_SOCKETS", str(tmp_path / "missing"))
    with pytest.raises(NoEngine, match=r"\(No such file or directory\): set `TURNWISE_SOCKETS` to a folder that"):
        make_sockets_folder()
    long = tmp_path / ("a" * 100)
    long.mkdir()
    monkeypatch.setenv("TURNWISE_SOCKETS", str(long))
    with pytest.raises(NoEngine, match=r"\(its path is too long\): set `TURNWISE_SOCKETS` to a folder with a shorter"):
        make_sockets_folder()
    assert not list(long.iterdir())
