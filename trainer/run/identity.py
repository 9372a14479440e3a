"""A run is its name: whether a command begins one, resumes one, forks one, or is refused.

One process at a time holds a run, by a lock on a file in its folder that ends with the process, however it ends.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sqlalchemy import func, select

from ...errors import TurnwiseError
from ...store.database import Database
from ..config.schema import RunConfig


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

    Unfinished with the same mathematics (``RunConfig.digest``): it is resumed. With another: refused, unless ``fork``
    makes a new run that starts from its newest checkpoint. Finished: a new run, numbered.

    Args:
        row: looks a run up by name; its ``status`` and ``config_hash`` are read.

    Raises:
        RunRefused: see above; the message says what to do.
    """
    chain: list[Any] = []
    while (found := row(_numbered(config.name, len(chain) + 1))) is not None:
        chain.append(found)
    fresh = _numbered(config.name, len(chain) + 1)
    unfinished = [one for one in chain if one["status"] != "finished"]
    mine = [one for one in unfinished if one["config_hash"] == config.digest() and (not fork or one["parent_id"])]
    if mine:
        return Identity(mine[-1]["id"], resumes=True, parent=mine[-1]["parent_id"])
    if fork and chain:
        return Identity(fresh, resumes=False, parent=chain[-1]["id"])
    if unfinished:
        name = unfinished[-1]["id"]
        raise RunRefused(
            f"run {name!r} is unfinished ({unfinished[-1]['status']}) and has another configuration: give back the old "
            "one to resume it, change `name`, or add --fork to start a new run from its newest checkpoint"
        )
    return Identity(fresh, resumes=False)


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


@contextmanager
def hold_in(database: Database, name: str) -> Iterator[None]:
    """Hold the run in a PostgreSQL store, for drivers on other hosts; on SQLite the file of ``hold`` does.

    Raises:
        RunRefused: another process holds it.
    """
    if database.engine.dialect.name != "postgresql":
        yield
        return
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if not conn.execute(select(func.pg_try_advisory_lock(key))).scalar_one():
            raise RunRefused(f"run {name!r} is being run by another process on this store")
        yield


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
