"""A run is its name: whether a command begins one, resumes one, forks one, or is refused.

One process at a time holds a run, by a lock on a file in its folder that ends with the process, however it ends.
"""

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..errors import TurnwiseError
from .config import RunConfig


class RunRefused(TurnwiseError):
    """The run of that name is of another configuration, or another process holds it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What this command does."""

    name: str
    resumes: bool
    parent: str | None = None
    """The run it is forked from."""


def decide(config: RunConfig, row: Callable[[str], Any | None], fork: bool) -> Identity:
    """The run this configuration means.

    Unfinished with the same configuration: it is resumed. With another: refused, unless ``fork`` makes a new run that
    starts from its newest checkpoint. Finished: a new run, numbered.

    Args:
        row: looks a run up by name; its ``status`` and ``config_hash`` are read.

    Raises:
        RunRefused: see above; the message says what to do.
    """
    name, number, last = config.name, 1, None
    while (found := row(name)) is not None:
        last = found
        if found["status"] != "finished":
            break
        number += 1
        name = f"{config.name}-{number}"
    if found is None:
        forked = last["id"] if fork and last is not None else None
        return Identity(name, resumes=False, parent=forked)
    if found["config_hash"] == config.digest() and not fork:
        return Identity(name, resumes=True)
    if fork:
        parent = name
        while row(name) is not None:
            number += 1
            name = f"{config.name}-{number}"
        return Identity(name, resumes=False, parent=parent)
    raise RunRefused(
        f"run {name!r} is unfinished ({found['status']}) and has another configuration: give back the old "
        "one to resume it, "
        "change `name`, or add --fork to start a new run from its newest checkpoint"
    )


def hold(folder: Path) -> IO[str]:
    """Hold the run for as long as the returned file is open.

    Raises:
        RunRefused: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / "lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with file:
            file.seek(0)
            holder = file.read().strip() or "unknown"
        raise RunRefused(f"run {folder.name!r} is being run by process {holder}") from None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file
