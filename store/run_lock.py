"""The lock that the driver of a run holds while it is alive, and its state as other processes read it.

Two drivers never hold one run. Both locks end with the process, however it ends:

* a lock on a file in the run's folder, which only the driver's own host is certain to see;
* in a PostgreSQL store also an advisory lock, which every client of the server sees.
"""

import fcntl
import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import IO

from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from .database import Database
from .errors import RunHeld

LOCK = "lock"
"""The file in a run's folder that its driver locks. It holds the process id, the host's name and the id of the host's
boot, one per line."""
READERS_TIMEOUT_S = 1.0
"""Seconds for which a driver retries its file lock while only readers hold it."""
HELD = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = CAST(:high AS bigint) AND objid = CAST(:low AS bigint)"
)
"""Counts the holders of an advisory lock. ``classid`` is the upper half of its 64-bit key, ``objid`` the lower."""


class Driver(StrEnum):
    """The state of the process that drives a run."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Not visible from this host: the driver ran on another host, or its lock cannot be read."""


def run_folder(database: Database, name: str) -> Path:
    """Return the folder of a run's files: in the folder of an SQLite store, else under ``runs/``."""
    path = database.engine.url.database if database.engine.dialect.name == "sqlite" else None
    return (Path(path).resolve().parent if path else Path("runs").resolve()) / name


@contextmanager
def hold_run(database: Database, name: str) -> Iterator[None]:
    """Hold a run that has a folder.

    Raises:
        RunHeld: another process holds it.
    """
    with _file_lock(run_folder(database, name)), _advisory_lock(database, name):
        yield


@contextmanager
def hold_evaluation(database: Database, name: str) -> Iterator[None]:
    """Hold a run that keeps no files: unless the process is killed, no folder stays.

    Raises:
        RunHeld: another process holds it.
    """
    if database.engine.dialect.name == "postgresql":
        with _advisory_lock(database, name):
            yield
        return
    folder = run_folder(database, name)
    with _file_lock(folder):
        try:
            yield
        finally:
            (folder / LOCK).unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()


def driver_of(database: Database, name: str) -> Driver:
    """Return the state of a run's driver now. Needs no write access, and never blocks the driver.

    The restart of a PostgreSQL server releases the advisory lock of a live driver. Its host still sees the file lock;
    other hosts see a driver that is gone.

    Raises:
        StoreUnavailable: the database did not answer.
    """
    by_file = _driver_by_file_lock(run_folder(database, name) / LOCK)
    if database.engine.dialect.name == "postgresql" and by_file is not Driver.ALIVE:
        return _driver_by_advisory_lock(database, name)
    return by_file


@contextmanager
def _advisory_lock(database: Database, name: str) -> Iterator[None]:
    if database.engine.dialect.name != "postgresql":
        yield
        return
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.detach()  # the session holds the lock: back in the pool, its connection would keep the lock
        if not conn.execute(select(func.pg_try_advisory_lock(_key(name)))).scalar_one():
            raise RunHeld(f"run {name!r} is being run by another process on this store")
        try:
            yield
        finally:
            # The end of the session releases the lock, too, but only after the server has noticed it.
            with suppress(SQLAlchemyError):
                conn.execute(select(func.pg_advisory_unlock(_key(name))))


def _key(name: str) -> int:
    """Return the key of a run's advisory lock, a signed 64-bit number."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)


def _driver_by_advisory_lock(database: Database, name: str) -> Driver:
    key = _key(name)
    halves = {"high": (key >> 32) & 0xFFFFFFFF, "low": key & 0xFFFFFFFF}
    with database.read() as conn:
        if conn.execute(text("SELECT pg_is_in_recovery()")).scalar_one():
            return Driver.UNKNOWN  # a standby does not show the locks of its primary
        return Driver.ALIVE if conn.execute(HELD, halves).scalar_one() else Driver.GONE


def _file_lock(folder: Path) -> IO[str]:
    """Lock the folder for as long as the returned file is open."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+", errors="replace")
    if not _locked(file):
        with file:
            file.seek(0)
            process, host, *_ = [*file.read().splitlines(), "unknown", "unknown"]
        raise RunHeld(f"run {folder.name!r} is being run by process {process} on host {host}")
    file.seek(0)
    file.truncate()
    file.write("\n".join([str(os.getpid()), *_this_host()]))
    file.flush()
    return file


def _locked(file: IO[str]) -> bool:
    """Return whether this process now locks ``file``. A reader shares the lock for microseconds and does not count."""
    ends = monotonic() + READERS_TIMEOUT_S
    while monotonic() < ends:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return False
            os.sched_yield()
        else:
            return True
    return False


def _driver_by_file_lock(lock: Path) -> Driver:
    try:
        with lock.open(errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return Driver.ALIVE
            _, name, boot = file.read().split("\n")
    except (OSError, ValueError):  # the file is missing or unreadable, or no driver wrote it
        return Driver.UNKNOWN
    here = _this_host()
    return Driver.GONE if name == here[0] or (boot and boot == here[1]) else Driver.UNKNOWN


def _this_host() -> tuple[str, str]:
    """Return the name of this host and the id of its boot, which its containers share; empty if it has no boot id."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return socket.gethostname(), boot
