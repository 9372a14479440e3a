"""``turnwise runs logs``: the log records of a run's processes, merged by time."""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import TurnwiseError
from ...logs import LEVELS, Level, files, parse
from ...store.project import DEFAULT_STORE
from ..options import Json, Run, Store, open_store
from ..terminal.output import GUTTER, echo, format_value, print_json
from ..terminal.sanitize import indented, one_line

FOLLOW_INTERVAL_S = 0.5
HEAD = ("time", "level", "process", "pid", "logger", "message", "error")
LIBRARIES = frozenset({"py.warnings", "ray", "torch", "transformers", "vllm"})
"""Libraries whose loggers warn at each start of an engine."""
Record = Mapping[str, Any]


class NoLogs(TurnwiseError):
    """The run keeps no log files, or has none on this machine."""


def logs(
    run: Run,
    level: Annotated[Level, typer.Option("--level", help="Records of this level and above.")] = "info",
    process: Annotated[
        str | None, typer.Option("--process", help="Only records of: driver, engine, worker, store or sandboxes.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000_000, help="Number of newest records to print.")
    ] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new records until Ctrl-C.")] = False,
    libraries: Annotated[
        bool, typer.Option("--libraries", help="Also warnings of vLLM, Ray, torch and transformers; errors are always.")
    ] = False,
    paths: Annotated[bool, typer.Option("--files", help="List the log files instead.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: Json = False,
) -> None:
    """Print the log records of a run's driver, engines, workers and sandbox nodes, merged by time."""
    folder = _folder(run, store)
    found = files(folder)
    if not found and not follow:
        raise NoLogs(
            f"run `{run}` has no log files in `{folder}/logs` of this host: look at the same path on the hosts of the "
            "cluster"
        )
    if paths:
        print_json([str(path) for path in found]) if as_json else echo("\n".join(map(str, found)))
        return

    def wanted(record: Record) -> bool:
        if not libraries and _is_of_library(record) and record.get("level") == "warning":
            return False
        rank = LEVELS.index(record["level"]) if record.get("level") in LEVELS else len(LEVELS)
        return rank >= LEVELS.index(level) and process in (None, record.get("process"))

    tail = _Tail(folder)
    _print(list(filter(wanted, tail.read()))[-limit:], as_json)
    while follow:
        time.sleep(FOLLOW_INTERVAL_S)
        _print(filter(wanted, tail.read()), as_json)


def _is_of_library(record: Record) -> bool:
    name = str(record.get("logger"))
    return name in LIBRARIES or name.partition(".")[0] in LIBRARIES


def _folder(run: str, store: str) -> Path:
    """Return the folder of a training run.

    Raises:
        NoLogs: the run is an evaluation.
    """
    from ...store.queries import lists as queries
    from ...store.run_lock import run_folder

    with open_store(store) as database, database.read() as conn:
        if queries.find_run(conn, run).kind == "eval":
            raise NoLogs(
                f"`{run}` is an evaluation, and evaluations keep no log files: `turnwise runs show {run}` prints its "
                "error, `turnwise trajectories show ID` the error of an episode, and `turnwise eval --log-level info` "
                "logs to stderr"
            )
        return run_folder(database, run)


class _Tail:
    """The records of a run's files since the last read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[int, int] = {}
        """Bytes read of each file, by inode: a rotated file keeps its own. A shorter file is a new one."""

    def read(self) -> list[Record]:
        """Return the new records, by time."""
        found: list[Record] = []
        for path in files(self._folder):
            try:
                found += parse(self._lines(path))
            except FileNotFoundError:
                continue
        return sorted(found, key=lambda record: str(record["time"]))

    def _lines(self, path: Path) -> Iterator[str]:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            inode = status.st_ino
            if status.st_size < self._read.get(inode, 0):
                self._read[inode] = 0
            file.seek(self._read.get(inode, 0))
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read[inode] = self._read.get(inode, 0) + len(line)
                yield line.decode(errors="replace")


def _print(records: Iterable[Record], as_json: bool) -> None:
    for record in records:
        if as_json:
            print_json(record, indent=None)
        else:
            echo(_line(record))


def _flat(record: Record) -> Iterator[tuple[str, object]]:
    """Yield the fields of a record; those of a table, such as the numbers of an update, one by one."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from ((key, format_value(one)) for key, one in value.items())
        else:
            yield name, value


def _line(record: Record) -> str:
    data = "".join(f" {name}={value}" for name, value in _flat(record) if name not in HEAD)
    head = f"{record['time']} {record.get('level')} {record.get('process')} {record.get('pid')} {record.get('logger')}"
    error = record.get("error")
    line = one_line(f"{head}: {record['message']}{data}", width=None)
    return f"{line}\n{GUTTER}{indented(str(error), GUTTER)}" if error else line
