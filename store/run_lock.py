"""The lock that the driver of a run holds while it is alive, and its state as other processes read it.

Both locks end with the process, however it ends:

* a lock on a file in the run's folder, which only the driver's own host is certain to see;
* in a PostgreSQL store also an advisory lock, which every client of the server sees.

The server releases the advisory lock when it loses the driver's connection. The driver then takes the lock again on a
new connection. If another driver holds it by then, ``lost`` is called, and the run has to end. Until then the epoch of
the run refuses the writes of the older driver.
"""

import fcntl
import hashlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import IO
from weakref import WeakSet

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from .database import Database
from .errors import RunHeld
from .project import run_folder

LOG = logging.getLogger(__name__)

Lost = Callable[[str], object]
"""Called once, from another thread, with the error of a lock that another process holds now."""
Say = Callable[[str], object]
"""Called from another thread, with a line for the user: the server is away, or answers again."""

LOCK = "lock"
"""The file in a run's folder that its driver locks. It holds the process id, the host's name and the id of the host's
boot, one per line."""
CHECK_INTERVAL_S = 2.0
"""Seconds between two checks of the connection with an advisory lock, and between two attempts to take it again."""
CLOSE_TIMEOUT_S = 5.0
"""Seconds to end the watch of an advisory lock; a server that does not answer may delay it for longer."""
READERS_TIMEOUT_S = 1.0
"""Seconds for which a driver retries its file lock while only readers hold it."""
HELD = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = CAST(:high AS bigint) AND objid = CAST(:low AS bigint)"
)
"""Counts the holders of an advisory lock. ``classid`` is the upper half of its 64-bit key, ``objid`` the lower."""
SESSION = text("SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()")
"""Identifies the session of a connection."""
END_SESSION = text(
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :start"
)
"""Ends a session whose connection was lost, if the server has not noticed that, and waits up to 5 s for its end."""


class Driver(StrEnum):
    """The state of the process that drives a run."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Not visible from this host: the driver ran on another host, or its lock cannot be read."""


@contextmanager
def hold_run(database: Database, name: str, lost: Lost = LOG.error, say: Say = LOG.warning) -> Iterator[None]:
    """Hold a run that has a folder. ``lost`` is called if another process holds it later.

    Raises:
        RunHeld: another process holds it.
    """
    with _file_lock(run_folder(database, name)), _advisory_lock(database, name, lost, say):
        yield


@contextmanager
def hold_evaluation(database: Database, name: str, lost: Lost = LOG.error, say: Say = LOG.warning) -> Iterator[None]:
    """Hold a run that keeps no files: unless the process is killed, no folder stays. ``lost`` is as for ``hold_run``.

    Raises:
        RunHeld: another process holds it.
    """
    if database.engine.dialect.name == "postgresql":
        with _advisory_lock(database, name, lost, say):
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

    The restart of a PostgreSQL server releases the advisory lock of a live driver for a few seconds. Its host still
    sees the file lock; other hosts see a driver that is gone.

    Raises:
        StoreUnavailable: the database did not answer.
    """
    by_file = _driver_by_file_lock(run_folder(database, name) / LOCK)
    if database.engine.dialect.name == "postgresql" and by_file is not Driver.ALIVE:
        return _driver_by_advisory_lock(database, name)
    return by_file


@contextmanager
def _advisory_lock(database: Database, name: str, lost: Lost, say: Say) -> Iterator[None]:
    if database.engine.dialect.name != "postgresql":
        yield
        return
    lock = _AdvisoryLock(database, name, lost, say)
    try:
        yield
    finally:
        lock.close()


class _AdvisoryLock:
    """The advisory lock of a run, taken again by a thread whenever its connection is lost."""

    def __init__(self, database: Database, name: str, lost: Lost, say: Say) -> None:
        """Raises RunHeld."""
        self._database = database
        self._name = name
        self._lost = lost
        self._say = say
        self._session: dict[str, object] = {}
        """The server's process and its start, of the connection that holds the lock."""
        self._conn = self._taken()
        self._ending = threading.Event()
        self._watch = threading.Thread(target=self._serve, name="turnwise-run-lock", daemon=True)
        self._watch.start()

    def close(self) -> None:
        """Release the lock."""
        self._ending.set()
        self._watch.join(CLOSE_TIMEOUT_S)
        # The end of the session releases the lock, too, but only after the server has noticed it.
        with suppress(SQLAlchemyError):
            if not self._watch.is_alive():
                self._conn.execute(select(func.pg_advisory_unlock(_key(self._name))))
                self._conn.close()

    def _taken(self) -> Connection:
        """Return a new connection that holds the lock. Raises RunHeld."""
        conn = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            conn.detach()  # the session holds the lock: back in the pool, its connection would keep the lock
            if self._session:
                conn.execute(END_SESSION, self._session)
            if not conn.execute(select(func.pg_try_advisory_lock(_key(self._name)))).scalar_one():
                raise RunHeld(f"run {self._name!r} is being run by another process on this store")
            pid, start = conn.execute(SESSION).one()
        except BaseException:
            conn.close()
            raise
        self._session = {"pid": pid, "start": start}
        return conn

    def _serve(self) -> None:
        while not self._ending.wait(CHECK_INTERVAL_S):
            try:
                self._conn.execute(select(1))
            except SQLAlchemyError as error:
                LOG.warning("the connection that holds the run's lock was lost: %s", error)
                self._conn.close()
                self._take_again()

    def _take_again(self) -> None:
        """Take the lock on a new connection as soon as the server accepts one."""
        began, is_away = monotonic(), False
        while not self._ending.is_set():
            try:
                self._conn = self._taken()
            except RunHeld:
                self._ending.set()
                self._lost(
                    f"another process drives run `{self._name}` now: the store dropped the connection that held the "
                    "run's lock, and the other process took the lock; this process ends without a further write"
                )
            except SQLAlchemyError as error:
                if not is_away:
                    reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
                    self._say(f"the database is away ({reason}); waiting for it, {self._database.retry_s:g} s at most")
                is_away = True
                self._ending.wait(CHECK_INTERVAL_S)
            else:
                LOG.info("the run's lock is held again, on a new connection", extra={"run": self._name})
                if is_away:
                    self._say(f"the database is back after {monotonic() - began:.0f} s; going on")
                return


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


_held: "WeakSet[IO[str]]" = WeakSet()
"""The locked files of this process."""


def _drop_inherited() -> None:
    """Close the locked files in a forked child: its copies would hold the locks for as long as the child lives."""
    for file in list(_held):
        file.close()


os.register_at_fork(after_in_child=_drop_inherited)


def _file_lock(folder: Path) -> IO[str]:
    """Lock the folder for as long as the returned file is open in this process."""
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / LOCK).open("a+", errors="replace")
    if not _locked(file):
        with file:
            file.seek(0)
            process, host, *_ = [*file.read().splitlines(), "unknown", "unknown"]
        raise RunHeld(f"run {folder.name!r} is being run by process {process} on host {host}")
    _held.add(file)
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
