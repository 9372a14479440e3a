"""The log records of a run's files on this machine: the newest ones, or those after a cursor."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from ....base.logs import LEVELS, Level, files
from ....store import queries
from ....store.database import Database
from ...run_logs import HEAD, NoLogs, Record, Tail, folder_with_logs, is_wanted
from ..given import BadAddress, Given
from .text import Cut

RECORDS_SHOWN = 300
FILE_BYTES_MAX, BYTES_MAX = 2**20, 2**24
"""Bytes that are read of each file, its end, and of all files."""
MESSAGE_CHARS = 2_000
ERROR_CHARS = 8_000
FILES_MAX = 80
"""Files that a cursor names; the page of a run with more of them does not follow it."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record."""

    time: str
    level: str
    process: str
    logger: str
    message: Cut
    data: str
    """The other fields, as JSON; empty without any."""
    error: Cut


@dataclass(frozen=True, slots=True)
class LogsPage:
    """Records, the oldest first."""

    run: str
    is_followed: bool
    """Whether the run is under way, so that records follow."""
    problem: str
    """Why there are none; empty if there is a file."""
    records: Sequence[LogRecord]
    is_cut: bool
    """Whether there are earlier records than those that were read and shown."""
    cursor: str
    """The end of what was read."""
    levels: Sequence[str]
    level: str
    processes: Sequence[str]
    process: str | None
    text: str | None
    libraries: bool
    """Whether warnings of vLLM, Ray, torch and transformers are among the records."""


def load_logs(database: Database, given: Given) -> LogsPage:
    """Return the newest records of at least ``level``, of ``process``, with ``text``, or those after ``cursor``."""
    run = given.path["run"]
    with database.read() as conn:
        is_running = queries.find_run(conn, run).status == "running"
    level: Level = next((one for one in get_args(Level) if one == given.choice("level", LEVELS)), "debug")
    process, text, libraries = given.text("process"), given.text("text"), given.choice("libraries", ("yes",)) == "yes"
    positions, problem, read, tail = _positions(given.text("cursor") or ""), "", [], None
    try:
        folder = folder_with_logs(database, run)
        if found := files(folder):
            tail = Tail(folder, positions, min(FILE_BYTES_MAX, BYTES_MAX // len(found)))
            read = tail.read()
        else:
            problem = (
                f"this machine has no log files of the run: read them by `turnwise runs logs {run}` on the host that "
                "drives it"
            )
    except NoLogs as error:
        problem = str(error)
    wanted = [one for one in read if is_wanted(one, level, process, libraries=libraries) and _has(one, text)]
    return LogsPage(
        run=run,
        is_followed=is_running and tail is not None and len(tail.positions) <= FILES_MAX,
        problem=problem,
        records=[_record(one) for one in wanted[-RECORDS_SHOWN:]],
        is_cut=len(wanted) > RECORDS_SHOWN or (tail is not None and tail.is_cut),
        cursor="" if tail is None else _cursor(tail),
        levels=LEVELS[1:],
        level=level,
        processes=sorted({str(one.get("process"))[:40] for one in read}),
        process=process,
        text=text,
        libraries=libraries,
    )


def _has(record: Record, text: str | None) -> bool:
    return text is None or text.casefold() in json.dumps(record, ensure_ascii=False, default=str).casefold()


def _record(record: Record) -> LogRecord:
    data = {name: value for name, value in record.items() if name not in HEAD}
    return LogRecord(
        time=str(record["time"])[:40],
        level=str(record.get("level"))[:20],
        process=str(record.get("process"))[:40],
        logger=str(record.get("logger"))[:80],
        message=Cut.of(str(record["message"]), MESSAGE_CHARS),
        data=json.dumps(data, ensure_ascii=False, default=str)[:MESSAGE_CHARS] if data else "",
        error=Cut.of(str(record.get("error") or ""), ERROR_CHARS),
    )


def _cursor(tail: Tail) -> str:
    return ".".join(f"{inode}-{position}" for inode, position in tail.positions.items())


def _positions(cursor: str) -> dict[int, int]:
    """Return the bytes read of each file, by inode. Raises BadAddress."""
    pairs = [one.split("-") for one in cursor.split(".")] if cursor else []
    if any(
        len(pair) != 2 or not all(one.isascii() and one.isdecimal() and len(one) < 20 for one in pair) for pair in pairs
    ):
        raise BadAddress("`cursor` is not the cursor of a page of logs")
    return {int(inode): int(position) for inode, position in pairs}
