"""Answer the host's requests over one connection, one request at a time, and keep its streams moving."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from .exec import ChildExitPipe, CommandPipes, attend, start
from .files import Refused, kernel_devices, read_tree, write_tree
from .frames import TOKEN_VARIABLE
from .processes import USERS, MemoryRecord, count_ooms, end_all, kill_all, kill_since, reap, watch
from .reset import IPC_TIMEOUT_S, await_no_ipc, clear_folders, clear_ipc, clear_keys, writable_modes
from .streams import MAX_STREAMS, Hub, Stream, request
from .trees import Listed, read_whole, write_whole

SOCKETS_MAX = 1024
"""Sockets of all processes together, including connections that wait to be accepted: the kernel charges those to no
memory limit, so that a sandbox of 64 MiB could otherwise hold gigabytes of the machine in connections to itself."""
CHECK_INTERVAL_S = 0.25


def count_sockets() -> int:
    """Return the number of sockets in this network namespace; 0 where the kernel does not count them, as in gVisor."""
    with contextlib.suppress(OSError), open("/proc/net/sockstat", "rb") as file:
        return int(file.readline().split()[2])
    return 0


class SocketLimit:
    """Kills every process of the sandbox users soon after they exceed ``SOCKETS_MAX``, from ``start`` to ``stop``."""

    def __init__(self) -> None:
        self.kills = 0
        """How often the limit was exceeded."""
        # A signal, because it also interrupts a system call for which the guest agent waits.
        signal.signal(signal.SIGALRM, self._check)

    def start(self) -> None:
        """Check at regular intervals from now on; children do not inherit the timer."""
        if not signal.getitimer(signal.ITIMER_REAL)[1]:
            signal.setitimer(signal.ITIMER_REAL, CHECK_INTERVAL_S, CHECK_INTERVAL_S)

    def stop(self) -> None:
        """End the checks, while no process of a sandbox user is alive."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _check(self, number: int, frame: Any) -> None:
        if count_sockets() > SOCKETS_MAX:
            self.kills += 1
            kill_all()


TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PR_SET_DUMPABLE = 4

Answer = tuple["dict[str, Any]", bytes]


class Disconnected(Exception):
    """The host closed the connection, or the sandbox's time to live ended."""


class Server:
    """Guest side of the connection."""

    def __init__(
        self,
        connection: socket.socket,
        first_uid: int | None,
        ttl_s: float,
        limits: dict[str, int],
        record: MemoryRecord,
    ) -> None:
        """Run commands under ``limits`` (rlimits by name), and keep the ``record`` of the memory limit up to date.

        ``first_uid`` is uid and gid of user 0; None: the only user is that of the guest agent.
        """
        self.record = record
        self.first_uid = first_uid
        self.limits = limits
        self.ends_at = time.monotonic() + ttl_s
        self.exits = ChildExitPipe()
        self.hub = Hub(connection, self.exits.reader)
        self.sockets = SocketLimit()
        self.ooms = self.count_kills()
        self.modes = writable_modes()
        self.kernel = kernel_devices()

    def serve(self) -> NoReturn:
        """Answer requests until the host disconnects. Raises Disconnected."""
        self.send({"python": sys.version.split()[0], "token": os.environ.pop(TOKEN_VARIABLE, "")})
        while True:
            header, payload = self.receive()
            try:
                answer, data = getattr(self, "do_" + header.pop("op"))(payload, **header)
            except Refused as error:
                answer, data = {"error": str(error)}, b""
            except Disconnected:
                raise
            except Exception as error:  # noqa: BLE001 - returned to the host
                answer, data = {"failure": f"{type(error).__name__}: {error}"}, b""
            self.record.update()
            self.send(answer, data)

    def do_ping(self, payload: bytes) -> Answer:
        """Return an empty answer."""
        return {}, b""

    def do_exec(
        self, stdin: bytes, argv: list[str], timeout_s: float, max_output_bytes: int, env: dict[str, str], user: int = 0
    ) -> Answer:
        """Run a command; return the fields of ``ExecResult``, stdout and stderr concatenated."""
        began, tick = time.monotonic(), int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_SECOND)
        uid = self.uid(user)
        self.sockets.start()
        with refusing_os_errors():
            child, ends = start(argv, env, uid, self.limits)
        pipes = CommandPipes(ends, stdin, max_output_bytes)
        try:
            until = min(began + timeout_s, self.ends_at)
            exit_code, reason = attend(child, pipes, self.exits, self.hub, until)
        finally:
            pipes.close()
        self.check_connected(reason)
        if reason:
            kill_since(tick)
        reap()
        return self.result(exit_code, reason, began, len(pipes.output[0])), b"".join(pipes.output)

    def do_request(self, message: bytes, path: str, timeout_s: float, max_output_bytes: int, user: int = 0) -> Answer:
        """Send a message to a unix socket in the sandbox; the exit code is the errno if no process listens."""
        began = time.monotonic()
        exit_code, reply, reason = 0, b"", ""
        try:
            with self.as_user(user):
                until = min(began + timeout_s, self.ends_at)
                reply, reason = request(path, message, max_output_bytes, self.hub, until)
        except OSError as error:
            exit_code = error.errno or 1
        except ValueError:
            exit_code = errno.EINVAL
        self.check_connected(reason)
        return self.result(exit_code, reason, began, len(reply)), reply

    def do_read(self, payload: bytes, path: str, max_bytes: int, timeout_s: float, user: int = 0) -> Answer:
        """Return one file or all regular files below a folder: names and lengths, contents concatenated."""
        with refusing_os_errors(), self.as_user(user):
            names, data = read_tree(path, max_bytes, self.kernel, time.monotonic() + timeout_s)
        return {"files": names}, data

    def do_read_tree(
        self, payload: bytes, path: str, known: str, max_bytes: int, timeout_s: float, user: int = 0
    ) -> Answer:
        """Return the entries below a path and the SHA-256 of all but their times; only that if it is ``known``."""
        import hashlib  # takes milliseconds, and only some sandboxes need it

        with refusing_os_errors(), self.as_user(user):
            entries, data = read_whole(path, max_bytes, self.kernel, time.monotonic() + timeout_s)
        timeless = [(name, kind, mode, length) for name, kind, mode, _, length in entries]
        digest = hashlib.sha256(json.dumps(timeless).encode() + data).hexdigest()
        return ({"digest": digest}, b"") if digest == known else ({"digest": digest, "entries": entries}, data)

    def do_write_tree(
        self, payload: bytes, path: str, entries: list[Listed], timeout_s: float, user: int = 0
    ) -> Answer:
        """Put entries in place below a folder, contents concatenated."""
        with refusing_os_errors(), self.as_user(user):
            write_whole(path, entries, payload, self.kernel, time.monotonic() + timeout_s)
        return {}, b""

    def do_write(
        self, payload: bytes, files: list[tuple[str, int]], executable: bool, timeout_s: float, user: int = 0
    ) -> Answer:
        """Write files, given as names and lengths, contents concatenated."""
        with refusing_os_errors(), self.as_user(user):
            write_tree(files, payload, 0o755 if executable else 0o644, self.kernel, time.monotonic() + timeout_s)
        return {}, b""

    def do_connect(self, payload: bytes, stream: int, address: int | str, timeout_s: float, user: int = 0) -> Answer:
        """Open a stream to a port of 127.0.0.1 or to the path of a unix socket."""
        self.check_room()
        kind, target = (
            (socket.AF_INET, ("127.0.0.1", address)) if isinstance(address, int) else (socket.AF_UNIX, address)
        )
        with refusing_os_errors(), self.as_user(user), socket.socket(kind) as end:
            end.settimeout(min(timeout_s, max(0.0, self.ends_at - time.monotonic())))
            try:
                end.connect(target)
            except TimeoutError:
                raise Refused(f"no answer within {timeout_s:g} s") from None
            end.setblocking(False)
            reader, writer = os.dup(end.fileno()), os.dup(end.fileno())
        self.hub.add(Stream(stream, writer, [reader]))
        return {}, b""

    def do_open_process(
        self, payload: bytes, stream: int, argv: list[str], env: dict[str, str], timeout_s: float, user: int = 0
    ) -> Answer:
        """Start a command whose three pipes are a stream."""
        self.check_room()
        uid = self.uid(user)
        # The processes of closed streams, which would count towards the limit of processes.
        reap()
        self.sockets.start()
        with refusing_os_errors():
            child, (writer, *readers) = start(argv, env, uid, self.limits)
        self.hub.add(Stream(stream, writer, readers, child))
        return {}, b""

    def check_room(self) -> None:
        """Raise Refused if the sandbox has ``MAX_STREAMS`` streams."""
        if len(self.hub.streams) >= MAX_STREAMS:
            raise Refused(f"the sandbox has {MAX_STREAMS} open streams; close one of them")

    def do_close_streams(self, payload: bytes) -> Answer:
        """Close every stream; after the answer, the guest agent sends only answers."""
        self.hub.close_streams()
        return {}, b""

    def do_reset(self, payload: bytes, timeout_s: float) -> Answer:
        """Restore the initial state of the sandbox."""
        try:
            self.restore(time.monotonic() + timeout_s)
        except OSError as error:
            raise Refused(str(error)) from None
        return {}, b""

    def restore(self, until: float) -> None:
        """Restore the initial state of the sandbox.

        Raises:
            Refused, OSError: something that the commands left prevents it.
        """
        self.hub.close_streams()
        end_all()
        self.sockets.stop()
        for user in range(1 if self.first_uid is None else USERS):
            with self.as_user(user):
                clear_ipc()
                clear_keys()
        await_no_ipc(min(until, time.monotonic() + IPC_TIMEOUT_S))
        clear_folders(self.modes, until)
        self.ooms = self.count_kills()

    def check_connected(self, reason: str) -> None:
        """Kill everything and raise Disconnected if the host disconnected or the time to live ended."""
        if reason == "disconnected" or time.monotonic() >= self.ends_at:
            kill_all()
            raise Disconnected

    def result(self, exit_code: int, reason: str, began: float, stdout_bytes: int) -> dict[str, Any]:
        """Return the header that answers ``exec`` and ``request``."""
        return {
            "exit_code": exit_code,
            "timed_out": reason == "timeout",
            "output_limit_exceeded": reason == "output_limit",
            "oom": self.oom(),
            "duration_s": time.monotonic() - began,
            "stdout_bytes": stdout_bytes,
        }

    def oom(self) -> bool:
        """Return whether the limit of memory or of sockets killed a process since the last call."""
        ooms, self.ooms = self.ooms, self.count_kills()
        return self.ooms > ooms

    def count_kills(self) -> int:
        """Return how often the limits of memory and of sockets were exceeded so far."""
        return count_ooms() + self.sockets.kills

    def uid(self, user: int) -> int | None:
        """Return the uid of a user of the sandbox; None for the guest agent's own.

        Raises:
            LookupError: the sandbox has no such user.
        """
        if self.first_uid is None and user == 0:
            return None
        if self.first_uid is None or not 0 <= user < USERS:
            raise LookupError(f"this sandbox has no user {user}: only the docker backend has users 1 to {USERS - 1}")
        return self.first_uid + user

    @contextlib.contextmanager
    def as_user(self, user: int) -> Iterator[None]:
        """Assume the rights of a user of the sandbox for access to files and sockets. Raises LookupError."""
        uid = self.uid(user)
        if uid is None:
            yield
            return
        os.setegid(uid)
        os.seteuid(uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the next request. Raises Disconnected."""
        while not self.hub.requests:
            left = self.ends_at - time.monotonic()
            if left <= 0 or not self.hub.pump(left):
                raise Disconnected
        return self.hub.requests.popleft()

    def send(self, answer: dict[str, Any], data: bytes = b"") -> None:
        """Send one answer to the host. Raises Disconnected."""
        if not self.hub.send_now(answer, data):
            raise Disconnected


@contextlib.contextmanager
def refusing_os_errors() -> Iterator[None]:
    """Raise an OSError of the block, and the errors of a path or port that cannot exist, as Refused."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"{os.strerror(error.errno or 0)}: {os.fsdecode(error.filename or '')}") from None


def make_undumpable() -> None:
    """Prevent other processes of the same user from tracing this process or reading its memory. Raises OSError."""
    import ctypes

    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def connect(address: str) -> socket.socket:
    """Return a connection to the host: ``tcp:HOST:PORT`` or the path of a unix socket. Raises OSError."""
    if address.startswith("tcp:"):
        host, _, port = address[len("tcp:") :].rpartition(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    return connection


def main(address: str, user: str, ttl_s: str, limits: str = "{}") -> None:
    """Connect to the host and serve requests.

    Args:
        address: as for ``connect``. The environment variable ``TOKEN_VARIABLE`` holds the token of a TCP address.
        user: the first of the ``USERS`` uids of the commands, or ``-`` for the user of the guest agent.
        ttl_s: the sandbox's time to live, in seconds.
        limits: rlimits by name, as a JSON object.
    """
    if user == "-":
        make_undumpable()
    else:
        os.setgroups([])
    connection, record = connect(address), MemoryRecord()
    record.update()
    if user != "-" and os.getpid() == 1:
        watch(connection, record)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(Disconnected):
        Server(connection, None if user == "-" else int(user), float(ttl_s), json.loads(limits), record).serve()
