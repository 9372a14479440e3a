"""The rows of a split: a list, a JSONL or Parquet file, or a ``datasets.Dataset``, as a sequence of mappings."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeAlias

from ...user_files import UnreadableFile, open_regular_file
from ..errors import EnvironmentBroken

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Mapping[str, Any]]
"""Anything with a length whose items are mappings from column names to values."""
Source: TypeAlias = Rows | str | Path
"""Rows, or the path of a file."""

_kept: dict[Any, Rows] = {}
"""The rows that this process has read, by environment, options and split."""
_locks: dict[Any, Any] = {}
"""A lock for each of them, so that no download delays another; reentrant, as ``load`` may ask for the rows it makes."""
_finding = Lock()


def kept_rows(key: Any, read: Callable[[], Rows]) -> Rows:
    """Return the rows of ``key``, which the first call of the process reads; None as key: read them at each call."""
    if key is None:
        return read()
    with _finding:
        lock = _locks.setdefault(key, RLock())
    with lock:
        if key not in _kept:
            _kept[key] = read()
        return _kept[key]


def rows_of(source: Source, method: str, folder: Path) -> Rows:
    """Return the rows of a source.

    Args:
        method: the call that returned the source, for errors.
        folder: where a relative path starts.

    Raises:
        EnvironmentBroken: the source has no rows or is none, or its file cannot be read.
    """
    if isinstance(source, str | Path):
        return _read(folder / source, method)
    kind = type(source).__name__
    if isinstance(source, Mapping):
        names = ", ".join(map(repr, list(source)[:5]))
        raise EnvironmentBroken(f"{method} returned a {kind} with the keys {names}: return the rows of one split")
    if not (hasattr(source, "__len__") and hasattr(source, "__getitem__")):
        raise EnvironmentBroken(f"{method} returned a {kind}, which has no length: return a list, such as `list(rows)`")
    return _with_a_first_row(source, method)


def _with_a_first_row(rows: Rows, source: str) -> Rows:
    """Return the rows. Raises EnvironmentBroken: there are none, or the first one is not a mapping."""
    if not len(rows):
        raise EnvironmentBroken(f"{source} has no rows; it must have at least one")
    try:
        first: object = rows[0]
    except (LookupError, TypeError):
        first = None
    if not isinstance(first, Mapping):
        raise EnvironmentBroken(
            f"{source}: the first row of the {type(rows).__name__} is not a mapping from column names to values; of a "
            'pandas DataFrame, return `frame.to_dict("records")`'
        )
    return rows


def _read(path: Path, method: str) -> Rows:
    if path.suffix not in READERS:
        raise EnvironmentBroken(
            f"{method} returned the path `{path}`; a file of rows ends in {' or '.join(READERS)}. Read another kind of "
            "file there, and return its rows"
        )
    try:
        return _with_a_first_row(READERS[path.suffix](path), f"`{path}`")
    except UnreadableFile as error:
        raise EnvironmentBroken(f"{method}: {error}") from error


def _jsonl(path: Path) -> Rows:
    """Read an object per line; empty lines are left out."""
    rows = []
    with open_regular_file(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise EnvironmentBroken(f"`{path}`, line {number}, is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise EnvironmentBroken(f"`{path}`, line {number}, is not an object with a value per column")
            rows.append(row)
    return rows


class _ParquetRows(Sequence[Mapping[str, Any]]):
    """The rows of a table of pyarrow."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, index: Any) -> Any:
        row: Row = self._table.slice(index, 1).to_pylist()[0]
        return row


def _parquet(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise EnvironmentBroken(f"`{path}` needs pyarrow: run `pip install pyarrow`") from error
    with open_regular_file(path) as file:
        try:
            return _ParquetRows(parquet.ParquetFile(file).read())
        except (ArrowException, OSError) as error:
            raise EnvironmentBroken(f"`{path}` is not a Parquet file that can be read: {error}") from error


READERS: dict[str, Callable[[Path], Rows]] = {".jsonl": _jsonl, ".parquet": _parquet}
"""The reader of each kind of file, by the end of its name."""


def folder_of(kind: type) -> Path:
    """Return the folder of the module that defines a class; the working directory if it has no file."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()
