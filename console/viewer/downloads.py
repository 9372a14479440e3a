"""Episodes to download, made as ``turnwise trajectories export`` makes files: without secrets, and only ended ones."""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from zipfile import ZIP_DEFLATED, ZipFile

from starlette.responses import Response, StreamingResponse

from ...store.database import Database
from ...store.exchange.exporting import export
from .document import EpisodeFiles
from .given import BadAddress

TYPES = {".html": "text/html; charset=utf-8", ".json": "application/json", ".zip": "application/zip"}
UNNAMEABLE = re.compile(r"[^A-Za-z0-9._-]")
FORMATS = ("html", "atif", "json")
CHUNK_BYTES = 2**18


def download(database: Database, trajectory: str, name: str) -> Response:
    """Return an episode as an attachment of a fixed type; with ATIF, an episode with pictures is an archive.

    Raises:
        BadAddress: there is no such format.
        ExchangeError: the episode is still running.
        StoreError: it cannot be read.
    """
    if name not in FORMATS:
        raise BadAddress(f"there is no download {name[:80]!r}: `html`, `atif` or `json`")

    def make(path: Path, _: object) -> EpisodeFiles:
        return EpisodeFiles(database, path, single=True, as_json=name == "json")

    with TemporaryDirectory(prefix="turnwise-download-") as folder:
        path = Path(folder) / "episode"
        export(database, [trajectory], path, name if name == "atif" else make, images=name != "json")
        suffix = f".{name}"
        if name == "atif":
            path, suffix = _one_file(path)
        content = path.open("rb")  # the file lives until it is closed
        size = path.stat().st_size
    headers = {
        "Content-Disposition": f'attachment; filename="{UNNAMEABLE.sub("_", trajectory)[:80]}{suffix}"',
        "Content-Length": str(size),
        "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    }
    return StreamingResponse(_chunks(content), media_type=TYPES[suffix], headers=headers)


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
