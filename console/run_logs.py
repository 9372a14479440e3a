"""The log files of a run, as the command and the viewer read them."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.logs import LEVELS, Level, files, parse
from ..base.user_files import UnreadableFile, open_regular_file
from ..errors import TurnwiseError

if TYPE_CHECKING:
    from ..store.database import Database

LIBRARIES = frozenset({"py.warnings", "ray", "torch", "transformers", "vllm"})
"""Libraries whose loggers warn at each start of an engine."""
HEAD = ("time", "level", "process", "pid", "logger", "message", "error")
"""The fields of a record that every record has."""
Record = Mapping[str, Any]


class NoLogs(TurnwiseError):
    """The run keeps no log files, or has none on this machine."""


def folder_with_logs(database: "Database", run: str) -> Path:
    """Return the folder of a training run, which may be missing on this machine.

    Raises:
        NoLogs: the run is an evaluation.
        NotFound: the run is not in the store.
    """
    from ..store.project import run_folder
    from ..store.queries import lists as queries

    with database.read() as conn:
        kind = queries.find_run(conn, run).kind
    if kind == "eval":
        raise NoLogs(
            f"`{run}` is an evaluation, and evaluations keep no log files: `turnwise runs show {run}` prints its "
            "error, `turnwise trajectories show ID` the error of an episode, and `turnwise eval --log-level info` "
            "logs to stderr"
        )
    return run_folder(database, run)


def is_wanted(record: Record, level: Level, process: str | None, *, libraries: bool) -> bool:
    """Return whether a record has at least ``level``, is of ``process``, and not a warning of a library if those are
    left out."""
    if not libraries and _is_of_library(record) and record.get("level") == "warning":
        return False
    rank = LEVELS.index(record["level"]) if record.get("level") in LEVELS else len(LEVELS)
    return rank >= LEVELS.index(level) and process in (None, record.get("process"))


def _is_of_library(record: Record) -> bool:
    name = str(record.get("logger"))
    return name in LIBRARIES or name.partition(".")[0] in LIBRARIES


class Tail:
    """The records of a run's files since the last read.

    ``positions``: bytes read of each file, by inode: a rotated file keeps its own. A shorter file is a new one.
    """

    def __init__(
        self, folder: Path, positions: Mapping[int, int] | None = None, limit_bytes: int | None = None
    ) -> None:
        self._folder = folder
        self.positions = dict(positions or {})
        self._limit = limit_bytes
        self.is_cut = False
        """Whether more than ``limit_bytes`` of a file were new, so that only its end was read."""

    def read(self) -> list[Record]:
        """Return the new records, by time."""
        found: list[Record] = []
        for path in files(self._folder):
            with suppress(OSError, UnreadableFile):  # replaced meanwhile, of another user, or no regular file
                found += parse(self._lines(path))
        return sorted(found, key=lambda record: str(record["time"]))

    def _lines(self, path: Path) -> Iterator[str]:
        with open_regular_file(path) as file:
            status = os.fstat(file.fileno())
            inode, start = status.st_ino, self.positions.get(status.st_ino, 0)
            if status.st_size < start:
                start = 0
            if self._limit is not None and status.st_size - start > self._limit:
                self.is_cut, start = True, status.st_size - self._limit
            self.positions[inode] = start
            file.seek(start)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self.positions[inode] += len(line)
                yield line.decode(errors="replace")
