"""Write selected trajectories of a store to a file or folder, without secrets."""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from ...base.masking import scrubbed
from ...records import Status
from ..database import Database
from ..errors import ExchangeError
from .atif.documents import AtifFolder
from .chat import MessageLines, ShareGptLines, SystemPrompt
from .episodes import Episode, read_episodes
from .parquet import TrajectoryRows
from .scrubbing import scrub
from .step_rows import StepRows


@contextmanager
def replaced(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """Yield a path next to ``path`` to write a file or folder at; at the end of the block, rename it to ``path``.

    If the block raises, nothing is left and ``path`` is as before.

    Raises:
        ExchangeError: ``path`` is a folder, exists and ``overwrite`` is not set, or cannot be written.
    """
    if path.is_dir():
        raise ExchangeError(f"`{path}` is an existing folder: name another path with `--out`, or remove the folder")
    if path.exists() and not overwrite:
        raise ExchangeError(f"`{path}` exists: name another path with `--out`, or add `--overwrite`")
    aside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield aside
        aside.replace(path)
    except OSError as error:
        raise ExchangeError(f"`{path}` cannot be written: {error.strerror or error}") from error
    finally:
        if aside.is_dir():
            shutil.rmtree(aside, ignore_errors=True)
        aside.unlink(missing_ok=True)


class EpisodeWriter(Protocol):
    """Writes episodes in one format."""

    def add(self, episode: Episode) -> None:
        """Write one episode."""

    def close(self) -> None:
        """Write the end."""


MakeWriter = Callable[[Path, SystemPrompt], EpisodeWriter]
"""Makes a writer with the path to write and a function that returns system prompts."""
FORMATS: dict[str, MakeWriter] = {
    "parquet": lambda path, _: TrajectoryRows(path),
    "parquet-steps": lambda path, _: StepRows(path),
    "atif": AtifFolder,
    "messages": MessageLines,
    "sharegpt": ShareGptLines,
}
"""The writer of each format."""
TEXT_ONLY = frozenset({"parquet-steps", "messages", "sharegpt"})
"""Formats without the content of images."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Counts of an export."""

    path: str
    trajectories: int
    steps: int
    scrubbed: int
    """Trajectories in which secrets were replaced by ``***``."""
    by_end: dict[str, int]
    """Trajectories by purpose and status, such as ``train completed``."""


def no_system_prompt(_: object) -> str:
    """Return the system prompt of episodes that are exported without one."""
    return ""


def export(
    database: Database,
    ids: Iterable[str],
    path: Path,
    kind: str | MakeWriter,
    *,
    system: SystemPrompt = no_system_prompt,
    images: bool = True,
    overwrite: bool = False,
) -> Exported:
    """Write the trajectories ``ids`` to ``path`` in the format ``kind``; return the counts.

    The file, or the folder of ``atif``, appears only once it is complete.

    Args:
        kind: a key of ``FORMATS``, or the writer of another format.
        system: returns the system prompt of a group's episodes, for the formats that have one.
        images: whether to write the content of images.
        overwrite: whether to replace an existing file.

    Raises:
        ExchangeError: nothing was selected, a trajectory is running, or the path exists or cannot be written.
        MissingPackage: the package that the format needs is not installed.
        NotFound: a trajectory is not in the store.
        StepCorrupt: stored content was altered.
    """
    trajectories = steps = changed = 0
    by_end = Counter[str]()
    with replaced(path, overwrite=overwrite) as aside:
        make = FORMATS[kind] if isinstance(kind, str) else kind
        writer = make(aside, lambda group: scrubbed(system(group)))
        try:
            for episode in read_episodes(database, ids, images=images and kind not in TEXT_ONLY):
                if episode.trajectory.status is Status.RUNNING:
                    raise ExchangeError(
                        f"trajectory {episode.trajectory.id!r} is still running: export it after its end"
                    )
                clean, had_secrets = scrub(episode)
                writer.add(clean)
                trajectories += 1
                steps += len(clean.trajectory.steps)
                changed += had_secrets
                by_end[f"{episode.group.purpose} {episode.trajectory.status}"] += 1
        finally:
            writer.close()
        if not trajectories:
            raise ExchangeError(
                "no trajectory matches, so nothing was written: list them by `turnwise trajectories list`"
            )
    return Exported(str(path), trajectories, steps, changed, dict(sorted(by_end.items())))
