"""The page of a run's logs reads the ends of its files, filtered, and what is new after a cursor."""

import json
import os
from pathlib import Path

import pytest
from turnwise.console.viewer.pages import logs
from turnwise.store.database import Database
from turnwise.store.project import run_folder
from turnwise.tests.console.viewer.conftest import client_of
from turnwise.tests.store.making import create_run, start


def line(second: int, message: str, level: str = "info", process: str = "driver", **data: object) -> str:
    record = {"time": f"2026-01-01T00:00:{second:02}.000+00:00", "level": level, "process": process, "pid": 1}
    return json.dumps({**record, "logger": "run", "message": message, **data}) + "\n"


@pytest.fixture
def file(own: Database) -> Path:
    start(own)
    folder = run_folder(own, "r") / "logs"
    folder.mkdir(parents=True)
    path = folder / "driver.jsonl"
    path.write_text(
        line(1, "began") + line(2, "stuck", "warning", update=3) + line(3, "broke", "error", error="Trace\nX")
    )
    (folder / "worker.jsonl").write_text(line(2, "plays", process="worker"))
    return path


def messages(database: Database, query: str = "") -> list[str]:
    page = client_of(database).get(f"/api/runs/r/logs{query}").json()
    return [one["message"]["text"] for one in page["records"]]


def test_the_records_of_all_files_are_merged_and_filtered(own: Database, file: Path) -> None:
    assert messages(own) == ["began", "stuck", "plays", "broke"]
    assert messages(own, "?level=warning") == ["stuck", "broke"]
    assert messages(own, "?process=worker") == ["plays"]
    assert messages(own, "?text=TRACE") == ["broke"]
    page = client_of(own).get("/runs/r/logs").text
    assert "<pre>Trace\nX</pre>" in page
    assert "{&#34;update&#34;: 3}" in page


def test_warnings_of_libraries_are_left_out_unless_asked_for(own: Database, file: Path) -> None:
    file.write_text(line(1, "no triton", "warning").replace('"run"', '"vllm.config"') + line(2, "ours", "warning"))
    assert messages(own, "?process=driver") == ["ours"]
    assert messages(own, "?process=driver&libraries=yes") == ["no triton", "ours"]


def test_a_cursor_leads_to_what_is_new(own: Database, file: Path) -> None:
    cursor = client_of(own).get("/api/runs/r/logs").json()["cursor"]
    assert messages(own, f"?cursor={cursor}") == []
    with file.open("a") as opened:
        opened.write(line(4, "ended") + '{"time": "half a li')
    assert messages(own, f"?cursor={cursor}") == ["ended"]


@pytest.mark.parametrize("cursor", ["x", "1-", "-1", "1-2.", "1-2-3", "../etc/passwd", "9" * 30 + "-1"])
def test_another_cursor_is_refused(own: Database, file: Path, cursor: str) -> None:
    assert client_of(own).get("/api/runs/r/logs", params={"cursor": cursor}).status_code == 400


def test_only_the_end_of_a_large_file_is_read(own: Database, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES_MAX", file.stat().st_size - 5)
    page = client_of(own).get("/api/runs/r/logs").json()
    assert ([one["message"]["text"] for one in page["records"]], page["is_cut"]) == (["stuck", "plays", "broke"], True)


def test_a_hostile_record_is_inert(own: Database, file: Path) -> None:
    file.write_text(line(1, "<script>\x1b[2J\u202e", "<b>", "<i>", x="</code><img src=x>"))
    page = client_of(own).get("/runs/r/logs?level=debug").text
    assert "<img" not in page
    assert "&lt;script&gt;␛[2J⟨right-to-left override⟩" in page


def test_a_run_without_files_here_states_it(own: Database) -> None:
    start(own)
    assert "this machine has no log files of the run" in client_of(own).get("/runs/r/logs").text
    create_run(own, "e", kind="eval")
    assert "evaluations keep no log files" in client_of(own).get("/runs/e/logs").text
    assert client_of(own).get("/runs/none/logs").status_code == 404


def test_what_is_no_log_file_is_left_out(own: Database, file: Path) -> None:
    os.mkfifo(file.with_name("waits.jsonl"))
    file.with_name("folder.jsonl").mkdir()
    file.with_name("gone.jsonl").symlink_to("nowhere")
    with file.open("a") as opened:
        opened.write("[" * 100_000 + "\n" + line(4, "ended"))
    assert set(messages(own)) == {"began", "stuck", "plays", "broke", "ended"}


def test_all_files_together_are_read_up_to_a_limit(own: Database, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BYTES_MAX", 5 * (len(line(1, "00")) + 8))
    for number in range(3):
        file.with_name(f"worker-{number}.jsonl").write_text("".join(line(at, f"{at:02}") for at in range(10, 20)))
    assert messages(own).count("19") == 3
    assert "18" not in messages(own)
    assert client_of(own).get("/api/runs/r/logs").json()["is_cut"]
