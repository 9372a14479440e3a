"""Log files hold one JSON object per record; a file that cannot be written ends nothing."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from turnwise.base.logs import LogFolder, files, level, log_errors, parse, set_level, to_terminal

LOG = logging.getLogger("turnwise.tests.logs")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = level()
    ours = logging.getLogger("turnwise")
    handlers = list(ours.handlers)
    yield
    set_level(before)
    for handler in set(ours.handlers) - set(handlers):
        ours.removeHandler(handler)


def written(folder: Path) -> list[dict[str, object]]:
    return [dict(record) for path in files(folder) for record in parse(path.read_text().splitlines())]


def test_a_record_becomes_one_json_line_with_its_fields(tmp_path: Path) -> None:
    with LogFolder(str(tmp_path / "logs")).writing("worker"):
        LOG.info("a member failed\n\x1b[2J", extra={"group": "g1", "path": Path("a")})
        try:
            raise LookupError("gone")
        except LookupError:
            LOG.warning("lost", exc_info=True)
    (path,) = files(tmp_path)
    assert len(path.read_text().splitlines()) == 3
    started, first, second = written(tmp_path)
    assert started["message"] == "process started"
    assert (first["message"], first["group"], first["path"]) == ("a member failed\n\x1b[2J", "g1", "a")
    assert (first["level"], first["process"], first["logger"]) == ("info", "worker", "tests.logs")
    assert "LookupError: gone" in str(second["error"])


def test_the_level_bounds_our_records_and_warnings_of_others_are_kept(tmp_path: Path) -> None:
    with LogFolder(str(tmp_path / "logs"), "warning").writing("driver"):
        LOG.info("left out")
        LOG.warning("kept")
        logging.getLogger("elsewhere").warning("kept too")
        logging.getLogger("elsewhere").setLevel("INFO")
        logging.getLogger("elsewhere").info("left out too")
    assert [record["message"] for record in written(tmp_path)] == ["kept", "kept too"]


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").write_text("a file stands where the folder should")
    with LogFolder(str(tmp_path / "logs")).writing("worker"):
        LOG.error("lost")
    assert capfd.readouterr().err == ""


def test_a_full_disk_ends_nothing_and_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"worker-{os.getpid()}.jsonl").symlink_to("/dev/full")
    with LogFolder(str(tmp_path / "logs")).writing("worker"):
        LOG.error("lost")
    assert capfd.readouterr().err == ""


def test_without_a_handler_records_go_nowhere() -> None:
    code = "import logging, turnwise.base.logs; logging.getLogger('turnwise.x').error('unseen')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_line_for_the_terminal_is_inert(capsys: pytest.CaptureFixture[str]) -> None:
    to_terminal("info")
    LOG.warning("from \x1b[2J\nthe page", extra={"title": "\x07"})
    printed = capsys.readouterr().err
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert len(printed.splitlines()) == 1
    assert "from" in printed


def test_lines_that_are_cut_or_foreign_are_skipped() -> None:
    good = json.dumps({"time": "2026-01-01T00:00:00", "message": "here"})
    assert [record["message"] for record in parse([good[:-4], "[]", "{}", good])] == ["here"]


def test_an_error_that_is_passed_over_is_logged(tmp_path: Path) -> None:
    with LogFolder(str(tmp_path / "logs")).writing("driver"), log_errors(LOG, "it did not answer", node="n1"):
        raise LookupError("gone")
    record = written(tmp_path)[-1]
    assert (record["level"], record["message"], record["node"]) == ("warning", "it did not answer", "n1")
    assert "LookupError: gone" in str(record["error"])
