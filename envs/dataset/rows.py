"""The rows of a split: a list, a JSONL or Parquet file, or a ``datasets.Dataset``, as a sequence of mappings."""

import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from threading import Lock, RLock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ...base.user_files import UnreadableFile, open_regular_file
from ..errors import EnvironmentBroken

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Mapping[str, Any]]
"""Anything with a length whose items are mappings from column names to values."""
Source: TypeAlias = Rows | str | Path
"""Rows, or the path of a file."""

T = TypeVar("T")

_kept: dict[Any, Any] = {}
"""The rows that this process has read, and their hashes, by environment, options and split."""
_locks: dict[Any, Any] = {}
"""A lock for each of them, so that no download delays another; reentrant, as ``load`` may ask for the rows it makes."""
_finding = Lock()

NUMBERS = 10**9
"""The last nine digits of a task's seed are the number of its row; the digits before them are a hash of the row."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def content_hash(value: Any) -> str:
    """Return the SHA-256 of a value as hex digits: the same in every process, and of the whole value.

    JSON values, bytes, arrays, pictures, dates, numbers, and containers and dataclasses of them count whole; of any
    other object, the text of its ``repr`` counts, without addresses.

    Raises:
        EnvironmentBroken: it has keys that are not texts, a cycle, or too many levels.
    """
    try:
        written = json.dumps(value, sort_keys=True, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentBroken(f"a row has a value that cannot be hashed ({error}): use texts as keys") from error
    return hashlib.sha256(written.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return a value that is not of JSON as one that is, perhaps with others in it."""
    if isinstance(value, bytes | bytearray):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return ["set", sorted(map(content_hash, value))]
    if isinstance(value, Sequence):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {one.name: getattr(value, one.name) for one in fields(value)}]
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        array, palette = np.asarray(value), value.getpalette() if hasattr(value, "getpalette") else None
        content = array.tolist() if array.dtype.hasobject else hashlib.sha256(array.tobytes()).hexdigest()
        return [str(array.dtype), array.shape, palette, content]
    return [type(value).__name__, _ADDRESS.sub("", repr(value))]


def place(split: str, number: int) -> str:
    """Return a row as errors name it."""
    return f"row {number} of `{split}`"


def kept(key: Any, read: Callable[[], T]) -> T:
    """Return the value of ``key``, which the first call of the process reads; None as key: read it at each call."""
    if key is None:
        return read()
    with _finding:
        lock = _locks.setdefault(key, RLock())
    with lock:
        if key not in _kept:
            _kept[key] = read()
        value: T = _kept[key]
        return value


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
                row = json.loads(line, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_object)
            except (ValueError, RecursionError) as error:
                raise EnvironmentBroken(f"`{path}`, line {number}, is not JSON: {error}") from error
            if not isinstance(row, dict):
                raise EnvironmentBroken(f"`{path}`, line {number}, is not an object with a value per column")
            rows.append(row)
    return rows


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"`{text}` is not a finite number; write `null`, or leave the row out")
    return value


def _object(pairs: list[tuple[str, Any]]) -> Row:
    if twice := _twice(name for name, _ in pairs):
        raise ValueError(f"an object has the key `{twice}` twice")
    return dict(pairs)


def _twice(names: Iterable[str]) -> str:
    return next((name for name, times in Counter(names).items() if times > 1), "")


class _ParquetRows(Sequence[Mapping[str, Any]]):
    """The rows of a table of pyarrow."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __getitem__(self, index: Any) -> Any:
        try:
            row: Row = self._table.slice(index, 1).to_pylist()[0]
        except (OverflowError, ValueError) as error:  # a date beyond those of Python
            raise EnvironmentBroken(f"row {index} has a value that cannot be read: {error}") from error
        return row


def _parquet(path: Path) -> Rows:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise EnvironmentBroken(f"`{path}` needs pyarrow: run `pip install pyarrow`") from error
    with open_regular_file(path) as file:
        try:
            table = parquet.ParquetFile(file).read()
        except (ArrowException, OSError) as error:
            raise EnvironmentBroken(f"`{path}` is not a Parquet file that can be read: {error}") from error
    if twice := _twice(table.column_names):
        raise EnvironmentBroken(f"`{path}` has two columns `{twice}`, and a row has one value of a name: rename one")
    return _ParquetRows(table)


READERS: dict[str, Callable[[Path], Rows]] = {".jsonl": _jsonl, ".parquet": _parquet}
"""The reader of each kind of file, by the end of its name."""


def folder_of(kind: type) -> Path:
    """Return the folder of the module that defines a class; the working directory if it has no file."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()
