"""Parquet with a row per trajectory: every field of the records, so that an import of the file is exact.

``datasets.load_dataset("parquet", data_files=...)`` and any other reader of Parquet loads it. ``steps``, ``messages``
and ``images`` are lists of structs; ``messages`` has the token columns (ids, mask, log-probabilities, versions).
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from ...base.user_files import open_regular_file
from ...records import Group, Horizon, Task, Trajectory
from ..errors import ExchangeError
from . import decode_parquet
from .columns import Codec, arrow, codec_of, present, record_columns, struct_codec
from .episodes import Episode

FORMAT_KEY = b"turnwise"
"""Key of the schema's metadata whose value names the layout of the file."""
LAYOUT = b"trajectories 3"
ROW_GROUP = 64
"""Trajectories per row group, at most, which a writer holds in memory."""
IMAGE_BYTES = 64 * 2**20
"""Bytes of images in a row group that end it."""
MAX_ROW_BYTES = 512 * 2**20
"""Bytes of one decoded trajectory of a file, its images included."""
MAX_ROW_VALUES = 2**24
"""Values of one trajectory of a file: each token has four."""
DECODER_BYTES = 2 * MAX_ROW_BYTES
"""Memory that the decoding of a file may take, above that of the program."""
_GROUP_COLUMNS = ("size", "purpose", "prompt_prefix", "state")


class ParquetWriter:
    """Writes rows of one schema to a Parquet file, in groups."""

    def __init__(self, path: Path, schema: Any, row_group: int) -> None:
        """``row_group`` is the number of rows after which a group ends. Raises MissingPackage."""
        self._schema = schema
        self._row_group = row_group
        self._writer = arrow().parquet.ParquetWriter(path, schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add_rows(self, rows: Iterable[dict[str, Any]], size: int = 0) -> None:
        """Add rows; ``size`` is the bytes of their images."""
        self._rows.extend(rows)
        self._bytes += size
        if len(self._rows) >= self._row_group or self._bytes >= IMAGE_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the rest and the end of the file."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(arrow().Table.from_pylist(self._rows, schema=self._schema))
            self._rows, self._bytes = [], 0


class TrajectoryRows(ParquetWriter):
    """Writes a Parquet file with a row per trajectory."""

    def __init__(self, path: Path) -> None:
        """Raises MissingPackage: pyarrow is not installed."""
        super().__init__(path, trajectory_schema(), ROW_GROUP)

    def add(self, episode: Episode) -> None:
        """Add one row."""
        self.add_rows([to_row(episode)], sum(map(len, episode.images.values())))


def trajectory_schema() -> Any:
    """Return the Arrow schema of a file with a row per trajectory."""
    pa = arrow()
    image = pa.struct([("hash", pa.string()), ("data", pa.binary())])
    types = [(name, codec.type) for name, codec in _columns().items()]
    return pa.schema([*types, ("images", pa.list_(image))], metadata={FORMAT_KEY: LAYOUT})


def to_row(episode: Episode) -> dict[str, Any]:
    """Return an episode as one row of ``trajectory_schema``."""
    values = _values(episode)
    row = {name: codec.encode(values[name]) for name, codec in _columns().items()}
    images = [{"hash": name, "data": data} for name, data in episode.images.items()]
    return {**row, "images": images}


def from_row(row: Mapping[str, Any]) -> Episode:
    """Return the episode that ``to_row`` received. Raises ValueError: a value is not in its vocabulary."""
    values = {name: codec.decode(row[name]) for name, codec in _columns().items()}
    trajectory = Trajectory(**{name: values[name] for name in record_columns(Trajectory)})
    group = Group(
        id=trajectory.group,
        run=trajectory.run,
        task=values["task"],
        horizon=values["horizon"],
        **{name: values[f"group_{name}"] for name in _GROUP_COLUMNS},
    )
    images = {present(one["hash"]): present(one["data"]) for one in row["images"]}
    return Episode(group, trajectory, values["final_observation"], images)


def read_parquet(path: Path) -> Iterator[Episode]:
    """Yield the episodes of a file that ``TrajectoryRows`` wrote, one in memory at a time.

    Raises:
        ExchangeError: the file is not such a file, a trajectory is too large, or a value is not allowed.
        UnreadableFile: the file is missing or no regular file.
        MissingPackage: pyarrow is not installed.
    """
    pa = arrow()
    with open_regular_file(path) as content:
        try:
            with pa.parquet.ParquetFile(content) as file:
                _check_layout(path, file.schema_arrow)
            for number, row in enumerate(_decoded(content)):
                _check_size(number, row)
                yield from_row(row.to_pylist()[0])
        except (pa.ArrowException, OSError, ValueError, TypeError) as error:
            raise ExchangeError(f"`{path}` cannot be read as trajectories: {error}") from error


def _decoded(content: BinaryIO) -> Iterator[Any]:
    """Yield the rows of an open Parquet file as Arrow batches of one row, which ``decode_parquet`` decodes.

    Raises:
        ValueError: the file is damaged, or a row needs more than ``DECODER_BYTES``.
    """
    pa = arrow()
    command = [sys.executable, "-P", decode_parquet.__file__, str(content.fileno()), str(DECODER_BYTES)]
    content.seek(0)
    broken = ""
    with TemporaryFile() as errors:
        with subprocess.Popen(
            command, pass_fds=[content.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as decoder:
            try:
                with pa.ipc.open_stream(decoder.stdout) as stream:
                    yield from stream
            except GeneratorExit:
                decoder.kill()
                raise
            except (pa.ArrowException, OSError) as error:
                broken = str(error)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
    if decoder.returncode < 0:
        raise ValueError(f"the decoding ended with signal {-decoder.returncode}")
    if decoder.returncode or broken:
        raise ValueError(lines[-1] if lines else broken)


def _check_size(number: int, row: Any) -> None:
    """Check one row before its values become Python objects. Raises ValueError."""
    if row.nbytes > MAX_ROW_BYTES:
        raise ValueError(f"trajectory {number} has {row.nbytes:,} bytes; the limit is {MAX_ROW_BYTES:,}")
    if (values := sum(map(_values_in, row.columns))) > MAX_ROW_VALUES:
        raise ValueError(f"trajectory {number} has {values:,} values; the limit is {MAX_ROW_VALUES:,}")


def _values_in(array: Any) -> int:
    """Return the number of values of an Arrow array, those of nested lists and structs included."""
    types = arrow().types
    if types.is_list(array.type):
        return len(array) + _values_in(array.flatten())
    if types.is_struct(array.type):
        return len(array) + sum(map(_values_in, array.flatten()))
    return len(array)


def _check_layout(path: Path, schema: Any) -> None:
    layout = (schema.metadata or {}).get(FORMAT_KEY, b"")
    if layout == LAYOUT and schema.equals(trajectory_schema()):
        return
    if layout.startswith(b"steps"):
        reason = "it has a row per step; export it again with `--format parquet`"
    elif layout == LAYOUT:
        reason = "its columns are not those that `turnwise trajectories export` writes"
    elif layout:
        reason = f"its layout is `{layout.decode(errors='replace')}`; this turnwise reads `{LAYOUT.decode()}`"
    else:
        reason = "`turnwise trajectories export` did not write it"
    raise ExchangeError(f"`{path}` cannot be imported: {reason}")


def _columns() -> dict[str, Codec]:
    """Return the codecs of all columns but ``images``."""
    group = record_columns(Group)
    return {
        **record_columns(Trajectory),
        "task": struct_codec(Task),
        "horizon": struct_codec(Horizon),
        **{f"group_{name}": group[name] for name in _GROUP_COLUMNS},
        "final_observation": codec_of("final_observation", str | None),
    }


def _values(episode: Episode) -> dict[str, Any]:
    group, trajectory = episode.group, episode.trajectory
    return {
        **{name: getattr(trajectory, name) for name in record_columns(Trajectory)},
        "task": group.task,
        "horizon": group.horizon,
        **{f"group_{name}": getattr(group, name) for name in _GROUP_COLUMNS},
        "final_observation": episode.final_observation,
    }
