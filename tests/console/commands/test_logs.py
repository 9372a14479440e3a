"""``turnwise runs logs`` merges the files of a run's processes by time and prints them inert."""

import json
from pathlib import Path

import pytest
from turnwise.console.run_logs import Tail
from turnwise.store import operations
from turnwise.store.database import open_database
from turnwise.tests.console.conftest import HOSTILE, Turnwise


def write(folder: Path, process: str, pid: int, *records: tuple[str, str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {"time": f"2026-01-01T00:00:{second}+00:00", "level": level, "process": process, "pid": pid, "message": text}
        for second, level, text in records
    ]
    (folder / f"{process}-{pid}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(tmp_path: Path, store: str) -> Path:
    """Write the log files of two processes of the run `demo`."""
    assert store
    logs = tmp_path / "demo" / "logs"
    write(logs, "driver", 10, ("01", "info", "begin"), ("04", "error", f"the page wrote {HOSTILE}"))
    write(logs, "engine", 11, ("02", "info", "loaded"), ("03", "warning", "slow"))
    return logs


def messages(out: str) -> list[str]:
    return [json.loads(line)["message"] for line in out.splitlines()]


@pytest.mark.usefixtures("folder")
def test_records_of_all_processes_are_sorted_by_time(turnwise: Turnwise, store: str) -> None:
    done = turnwise("runs", "logs", "demo", "--store", store, "--json")
    assert done.code == 0
    assert messages(done.out)[:3] == ["begin", "loaded", "slow"]


@pytest.mark.usefixtures("folder")
def test_level_process_and_limit_choose(turnwise: Turnwise, store: str) -> None:
    def chosen(*options: str) -> list[str]:
        return messages(turnwise("runs", "logs", "demo", "--store", store, "--json", *options).out)

    assert len(chosen("--level", "warning")) == 2
    assert chosen("--process", "engine") == ["loaded", "slow"]
    assert chosen("--limit", "2")[0] == "slow"


@pytest.mark.usefixtures("folder")
def test_text_of_a_page_moves_no_cursor(turnwise: Turnwise, store: str) -> None:
    out = turnwise("runs", "logs", "demo", "--store", store).out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "the page wrote" in out
    assert len(out.splitlines()) == 4


def test_files_are_listed(turnwise: Turnwise, store: str, folder: Path) -> None:
    out = turnwise("runs", "logs", "demo", "--store", store, "--files").out
    assert set(out.split()) == {str(path) for path in folder.iterdir()}


def test_a_rotated_file_that_reuses_an_inode_is_read_from_its_beginning(tmp_path: Path) -> None:
    write(tmp_path / "logs", "driver", 10, ("01", "info", "begin"), ("02", "info", "a long message " * 10))
    tail = Tail(tmp_path)
    assert len(tail.read()) == 2
    inode = (tmp_path / "logs" / "driver-10.jsonl").stat().st_ino
    write(tmp_path / "logs", "driver", 10, ("03", "info", "next"))
    assert (tmp_path / "logs" / "driver-10.jsonl").stat().st_ino == inode
    assert [record["message"] for record in tail.read()] == ["next"]
    assert tail.read() == []


def test_a_run_without_logs_and_an_unknown_run_are_named(turnwise: Turnwise, store: str) -> None:
    none = turnwise("runs", "logs", "demo", "--store", store)
    assert none.code == 2
    assert "has no log files" in none.err
    unknown = turnwise("runs", "logs", "dem", "--store", store)
    assert unknown.code == 2
    assert "demo" in unknown.err


def test_the_logs_of_an_evaluation_are_refused_with_the_reason(turnwise: Turnwise, store: str) -> None:
    database = open_database(store)
    with database.transaction() as tx:
        operations.create_run(tx, run="eval-1", config={}, config_hash="e", kind="eval", code_version="c")
    database.close()
    for options in ([], ["--follow"]):
        refused = turnwise("runs", "logs", "eval-1", *options, "--store", store)
        assert (refused.code, refused.out) == (2, "")
        assert "`eval-1` is an evaluation, and evaluations keep no log files" in refused.err


def test_start_up_warnings_of_libraries_are_shown_on_request(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    logs = tmp_path / "demo" / "logs"
    logs.mkdir(parents=True)
    named = [
        ("vllm.config", "warning", "a"),
        ("vllm", "error", "b"),
        ("my_pkg.envs", "warning", "c"),
        ("ray", "info", "d"),
    ]
    lines = [
        {"time": str(at), "level": level, "process": "engine", "pid": 1, "logger": logger, "message": text}
        for at, (logger, level, text) in enumerate(named)
    ]
    (logs / "engine-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert messages(turnwise("runs", "logs", "demo", "--store", store, "--json").out) == ["b", "c", "d"]
    assert messages(turnwise("runs", "logs", "demo", "--libraries", "--store", store, "--json").out) == list("abcd")


def test_the_numbers_of_an_update_are_one_field_each(turnwise: Turnwise, store: str, tmp_path: Path) -> None:
    logs = tmp_path / "demo" / "logs"
    logs.mkdir(parents=True)
    event = {"update": 3, "success": 0.25, "groups": {"ready": 2}}
    line = {"time": "1", "level": "info", "process": "driver", "pid": 1, "message": "UpdateDone", "event": event}
    (logs / "driver-1.jsonl").write_text(json.dumps(line) + "\n")
    out = turnwise("runs", "logs", "demo", "--store", store).out
    assert out.endswith(": UpdateDone update=3 success=0.25 groups=ready 2\n")
