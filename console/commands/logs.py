"""``turnwise runs logs``: the log records of a run's processes, merged by time."""

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

import typer

from ...base.logs import Level, files
from ...store.project import DEFAULT_STORE
from ..options import Json, Run, Store, open_store
from ..run_logs import HEAD, NoLogs, Record, Tail, folder_with_logs, is_wanted
from ..terminal.output import GUTTER, echo, format_value, print_json
from ..terminal.sanitize import indented, one_line

FOLLOW_INTERVAL_S = 0.5


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
    with open_store(store) as database:
        folder = folder_with_logs(database, run)
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
        return is_wanted(record, level, process, libraries=libraries)

    tail = Tail(folder)
    _print(list(filter(wanted, tail.read()))[-limit:], as_json)
    while follow:
        time.sleep(FOLLOW_INTERVAL_S)
        _print(filter(wanted, tail.read()), as_json)


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
