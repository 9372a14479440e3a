"""Episodes to download, made as ``turnwise trajectories export`` makes files: without secrets, and only ended ones."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile

from starlette.responses import Response, StreamingResponse

from ...errors import TurnwiseError
from ...store.database import Database
from ...store.errors import ExchangeError
from ...store.exchange.exporting import export
from .document import EpisodeFiles
from .given import BadAddress

TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json", ".zip": "application/zip"}
UNNAMEABLE = re.compile(r"[^A-Za-z0-9._-]")
FORMATS = ("html", "atif", "json")
CHUNK_BYTES = 2**18


class NoRoom(TurnwiseError):
    """A file to download cannot be written."""


def download(database: Database, trajectory: str, name: str) -> Response:
    """Return an episode as an attachment of a fixed type; with ATIF, an episode with pictures is an archive.

    Raises:
        BadAddress: there is no such format.
        ExchangeError: the episode is still running.
        NoRoom: its file cannot be written; it is a temporary one.
        StoreError: it cannot be read.
    """
    if name not in FORMATS:
        raise BadAddress(f"there is no download {name[:80]!r}: `html`, `atif` or `json`")

    try:
        content, suffix = _written(database, trajectory, name)
    except (OSError, ExchangeError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise NoRoom(
            f"the download cannot be written to a temporary file: {cause.strerror or cause}; free space for temporary "
            "files, or start the viewer with `TMPDIR` set to another folder"
        ) from error
    headers = {
        "Content-Disposition": f'attachment; filename="{UNNAMEABLE.sub("_", trajectory)[:80]}{suffix}"',
        "Content-Length": str(os.fstat(content.fileno()).st_size),
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    }
    return StreamingResponse(_chunks(content), media_type=TYPES[suffix], headers=headers)


def _written(database: Database, trajectory: str, name: str) -> tuple[IO[bytes], str]:
    """Return the file of an episode, which lives until it is closed, and its suffix."""

    def make(path: Path, _: object) -> EpisodeFiles:
        return EpisodeFiles(database, path, single=True, as_json=name == "json")

    with TemporaryDirectory(prefix="turnwise-download-") as folder:
        path = Path(folder) / "episode"
        export(database, [trajectory], path, name if name == "atif" else make, images=name != "json")
        suffix = f".{name}"
        if name == "atif":
            path, suffix = _one_file(path)
        return path.open("rb"), suffix


def _one_file(folder: Path) -> tuple[Path, str]:
    """Return the document of a folder if that is all, else an archive of the folder; and its suffix."""
    files = sorted(one for one in folder.rglob("*") if one.is_file())
    if len(files) == 1:
        return files[0], ".json"
    archive = folder.with_suffix(".zip")
    with ZipFile(archive, "w", ZIP_DEFLATED) as zipped:
        for one in files:
            zipped.write(one, one.relative_to(folder))
    return archive, ".zip"


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while chunk := content.read(CHUNK_BYTES):
            yield chunk
