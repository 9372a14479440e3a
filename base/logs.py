"""Logging: one logger per module, and one file of JSON lines per process of a run, in the run's folder `logs/`.

A module logs with `logging.getLogger(__name__)` and puts data into `extra`, never into the sentence:
`LOG.warning("the engine does not answer", extra={"engine": 0})`. Every field of `extra` becomes a key of the JSON line.
A process of a run calls `LogFolder.attach` once, or runs within `LogFolder.writing`. A log that cannot be written (full
disk, no rights) is lost; it neither ends nor delays the process that writes it.

In a process without `attach` and without `to_terminal`, records of turnwise go nowhere.
"""

import contextlib
import json
import logging
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Literal

Level = Literal["debug", "info", "warning", "error"]

LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error")
PACKAGE = "turnwise"
FOLDER = "logs"
FILE_MAX_BYTES = 16 << 20
"""Size at which a file becomes `<name>.1`, which replaces the one before."""
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

logging.getLogger(PACKAGE).addHandler(logging.NullHandler())


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the values that a call passed in `extra`."""
    ours = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: value for name, value in ours.items() if not name.startswith("_")}  # Ray adds its own.


class JsonLine(logging.Formatter):
    """Format a record as a JSON object: `time`, `level`, `process`, `pid`, `logger`, `message`, `error`, fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line; a value that JSON does not have becomes its text."""
        line: dict[str, Any] = {
            **fields(record),
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "pid": record.process,
            "logger": record.name.removeprefix(f"{PACKAGE}."),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TerminalLine(logging.Formatter):
    """Format a record as one line for a person; the text of an error follows its first line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; every control character but the newlines of a traceback is escaped."""
        data = "".join(f" {name}={value!r}" for name, value in fields(record).items())
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        head = f"{time} {record.levelname.lower()} {record.name.removeprefix(f'{PACKAGE}.')}"
        line = f"{head}: {record.getMessage()}{data}"
        error = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return "\n  ".join(_inert(part) for part in (line.replace("\n", " ") + error).splitlines())


def _inert(line: str) -> str:
    return line if line.isprintable() else line.encode("unicode_escape").decode()


class _File(RotatingFileHandler):
    """A file that its first record creates; records that cannot be written are dropped."""

    def __init__(self, path: Path, process: str) -> None:
        super().__init__(path, maxBytes=FILE_MAX_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self.setFormatter(JsonLine(process))
        self.addFilter(_ours_or_warning)

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop the record."""


def _ours_or_warning(record: logging.LogRecord) -> bool:
    ours = record.name == PACKAGE or record.name.startswith(f"{PACKAGE}.")
    return ours or record.levelno >= logging.WARNING


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder and the level of a run's log files; sent to each of the run's processes."""

    path: str
    level: Level = "info"

    @classmethod
    def of(cls, run_folder: Path) -> "LogFolder":
        """Return the folder of a run, at the level that this process logs at."""
        return cls(str(run_folder / FOLDER), level())

    @contextlib.contextmanager
    def writing(self, process: str) -> Iterator[None]:
        """Inside the context, write this process's records to its file, as `attach` does."""
        handler = self.attach(process)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(handler)
            with contextlib.suppress(OSError):  # A full disk does not take the rest.
                handler.close()

    def attach(self, process: str) -> logging.Handler:
        """Write this process's records to `<path>/<process>-<pid>.jsonl` until it ends; return the handler.

        Records of other packages are written from `warning` on.
        """
        set_level(self.level)
        path = Path(self.path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            logging.getLogger(__name__).warning("no log file: the folder cannot be created", extra={"why": str(error)})
        handler = _File(path / f"{process}-{os.getpid()}.jsonl", process)
        logging.getLogger().addHandler(handler)
        logging.getLogger(__name__).info("process started", extra={"host": platform.node()})
        return handler


@contextlib.contextmanager
def log_errors(log: logging.Logger, message: str, **data: object) -> Iterator[None]:
    """Log an exception of the block as a warning and continue after the block."""
    try:
        yield
    # The blocks clean up or retry: no exception of theirs may keep the caller from its next step.
    except Exception:
        log.warning(message, exc_info=True, extra=data)


def level() -> Level:
    """Return the level that this process logs at."""
    name = logging.getLevelName(logging.getLogger(PACKAGE).level).lower()
    return next((one for one in LEVELS if one == name), "info")


def set_level(chosen: Level) -> None:
    """Log records of turnwise from this level on, in this process."""
    logging.getLogger(PACKAGE).setLevel(chosen.upper())


def to_terminal(chosen: Level) -> None:
    """Print the records of turnwise from this level on to stderr."""
    set_level(chosen)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TerminalLine())
    logging.getLogger(PACKAGE).addHandler(handler)


def files(run_folder: Path) -> list[Path]:
    """Return the log files of a run, the oldest first; those that were rotated precede their successor."""
    found = [*(run_folder / FOLDER).glob("*.jsonl"), *(run_folder / FOLDER).glob("*.jsonl.1")]
    return sorted(found, key=lambda path: (_changed_at(path), path.name))


def _changed_at(path: Path) -> float:
    """Return the time of the last record; 0 for a file that was rotated away meanwhile."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def parse(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the records of JSON lines; a line that is cut or foreign is skipped."""
    for line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("time"), str) and isinstance(record.get("message"), str):
            yield record
