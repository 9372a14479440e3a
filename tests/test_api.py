"""The API for programs, on one offline run: a callback stops it, a callback fails it, and the example finishes it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import turnwise
from turnwise.store import queries
from turnwise.store.errors import StoreError
from turnwise.tests.trainer.run.test_offline import SETTINGS, url  # noqa: F401 - a fixture
from turnwise.trainer.run.callbacks import CallbackFailed

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "from_python.py"


class Stopping(turnwise.Callback):
    def __init__(self) -> None:
        self.received: list[object] = []

    def on_update(self, update: turnwise.UpdateDone) -> None:
        self.received.append(
            (update.update, update.metrics["success"] == update.success, "grad_norm" in update.metrics)
        )
        raise turnwise.StopRun("enough")

    def on_end(self, end: turnwise.RunEnded) -> None:
        self.received.append((end.run, end.status, end.result is not None))


class Failing(turnwise.Callback):
    ended = ""

    def on_update(self, update: turnwise.UpdateDone) -> None:
        raise KeyError("accuracy")

    def on_end(self, end: turnwise.RunEnded) -> None:
        self.ended = end.status


@pytest.mark.slow
def test_a_run_is_stopped_failed_and_finished_from_python(url: str, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    stopping = Stopping()
    stopped = turnwise.train(SETTINGS, callbacks=[stopping], store=url)
    assert (stopped.status, stopped.updates) == ("stopped", 1)
    assert stopping.received == [(1, True, True), ("off", "stopped", True)]

    failing = Failing()
    with pytest.raises(CallbackFailed, match="callback `Failing` failed at update 2: KeyError: 'accuracy'"):
        turnwise.train(SETTINGS, callbacks=[failing], store=url)
    assert failing.ended == "failed"
    with turnwise.open_store(url) as reader:
        row = reader.read(queries.find_run, "off")
        assert row.status == "failed"
        assert "callback `Failing` failed at update 2" in str(row.error)

    spec = importlib.util.spec_from_file_location("from_python", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    finished = example.main(SETTINGS, url, success=2.0)
    assert (finished.status, finished.updates) == ("finished", 3)
    printed = capsys.readouterr().out
    assert "update 2: success" in printed
    assert "run off finished" in printed
    assert "random policy: 0." in printed


def test_the_project_file_names_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNWISE_STORE", raising=False)
    (tmp_path / "turnwise.toml").write_text('store = "sqlite:///mine.db"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with pytest.raises(StoreError, match=f"no store at {tmp_path / 'mine.db'}"), turnwise.open_store():
        pass


def test_the_public_names_are_imported_at_first_use() -> None:
    for name in turnwise.__all__:
        assert getattr(turnwise, name).__name__ == name
    with pytest.raises(AttributeError, match="`turnwise` has no attribute `trian`"):
        _ = turnwise.trian
    code = "import sys, turnwise; print(sorted({'torch', 'sqlalchemy', 'pydantic', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
