"""A real PostgreSQL server for the tests, in a temporary folder and reachable through a socket there."""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import psycopg

MEMORY = Path("/dev/shm")  # noqa: S108
MEMORY_MIN_BYTES = 4 << 30
"""Free memory with which the server's files are there: a new database then takes a tenth of the processor time."""
MISSING = "PostgreSQL's server is not installed, and the store's tests need it: apt-get install postgresql"


def memory() -> Path | None:
    """Return the folder of a file system in memory, if it has enough room."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_MIN_BYTES else None


def programs() -> Path:
    """Return the folder of initdb and postgres.

    Raises:     RuntimeError: PostgreSQL is not installed.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    if on_path is None:
        raise RuntimeError(MISSING)
    return Path(on_path).resolve().parent


class Server:
    """A running server, as a child process; ``stop`` ends it."""

    def __init__(self) -> None:
        self._bin = programs()
        self._folder = Path(tempfile.mkdtemp(prefix="turnwise-pg-", dir=memory()))
        self._as = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self._as:
            shutil.chown(self._folder, "postgres")
        self._data = self._folder / "data"
        options = ["--auth=trust", "--no-sync", "--username=postgres", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", "-D", str(self._data), *options)
        self._control("start")
        self._server = psycopg.connect(self.url("postgres", "postgresql"), autocommit=True)

    def url(self, name: str, driver: str = "postgresql+psycopg") -> str:
        """Return the URL of database ``name``."""
        return f"{driver}://postgres@/{name}?host={self._folder}"

    def create(self, template: str = "template1") -> str:
        """Create a database as a copy of ``template``; return its name."""
        name = f"t_{uuid.uuid4().hex}"
        self._server.execute(
            psycopg.sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(psycopg.sql.Identifier, (name, template)))
        )
        return name

    def drop_connections(self, name: str) -> None:
        """End every connection to database ``name``, as a restart would, and wait until its processes have ended."""
        self._server.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s", [name])

    def restart(self) -> None:
        """End the server at once, as a crash would, and start it again; it recovers from its log."""
        self._server.close()
        self._control("restart")
        self._server = psycopg.connect(self.url("postgres", "postgresql"), autocommit=True)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Keep the server down inside the ``with`` block."""
        self._server.close()
        self._control("stop")
        yield
        self._control("start")
        self._server = psycopg.connect(self.url("postgres", "postgresql"), autocommit=True)

    @contextmanager
    def pooled(self, mode: str) -> Iterator[str]:
        """Run pgbouncer before the server inside the block, and yield its address in place of ``host`` of a URL."""
        folder = self._folder / mode
        folder.mkdir()
        settings = {
            "listen_addr": "",
            "unix_socket_dir": folder,
            "auth_type": "any",
            "pool_mode": mode,
            "logfile": folder / "log",
            "pidfile": folder / "pid",
            "ignore_startup_parameters": "extra_float_digits",
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        databases = ["[databases]", f"* = host={self._folder} user=postgres", "[pgbouncer]"]
        (folder / "ini").write_text("\n".join([*databases, *lines, ""]))
        if self._as:
            shutil.chown(folder, "postgres")
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or "pgbouncer"
        with subprocess.Popen([*self._as, program, "-q", str(folder / "ini")], stderr=subprocess.DEVNULL) as pooler:
            deadline = monotonic() + 30
            while not (socket := next(folder.glob(".s.PGSQL.*"), None)) or socket.suffix == ".lock":
                assert monotonic() < deadline, "pgbouncer did not start"
                sleep(0.02)
            yield f"{folder}&port={socket.suffix[1:]}"
            os.kill(int((folder / "pid").read_text()), signal.SIGTERM)
            pooler.wait(30)

    def stop(self) -> None:
        """End the server and remove its folder."""
        self._server.close()
        self._control("stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _control(self, action: str) -> None:
        settings = f"-c listen_addresses='' -k {self._folder} -c fsync=off -c max_wal_size=96MB -c max_connections=60"
        start = ["-o", settings, "-l", str(self._folder / "log")] if action != "stop" else []
        end = ["-m", "immediate"] if action != "start" else []
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "60", *start, *end, action)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*self._as, str(self._bin / program), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            timeout=120,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr.decode(errors='replace')[-2000:]}")
