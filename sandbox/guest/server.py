"""Answer the host's requests over one connection, one request at a time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from .exec import ChildExitPipe, CommandPipes, attend, start
from .files import read_tree, write_tree
from .frames import LENGTHS, decode_header, decode_lengths, encode
from .processes import count_ooms, end_all, kill_all, kill_since, reap
from .request import request
from .reset import clear, writable_modes

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
RECEIVE_BYTES = 1 << 20
PR_SET_DUMPABLE = 4

Answer = tuple["dict[str, Any]", bytes]


class Disconnected(Exception):
    """The host closed the connection, or the sandbox's time to live ended."""


class Server:
    """Guest side of the connection."""

    def __init__(self, connection: socket.socket, user: int | None, ttl_s: float, limits: dict[str, int]) -> None:
        """Run commands as ``user`` (uid and gid; None: those of the guest agent) under ``limits`` (rlimits by name)."""
        self.connection = connection
        self.user = user
        self.limits = limits
        self.ends_at = time.monotonic() + ttl_s
        self.exits = ChildExitPipe()
        self.ooms = count_ooms()
        self.modes = writable_modes()

    def serve(self) -> NoReturn:
        """Answer requests until the host disconnects. Raises Disconnected."""
        self.send({"python": sys.version.split()[0]})
        while True:
            header, payload = self.receive()
            try:
                answer, data = getattr(self, "do_" + header.pop("op"))(payload, **header)
            except OSError as error:
                answer, data = {"error": f"{os.strerror(error.errno or 0)}: {error.filename or ''}"}, b""
            except Disconnected:
                raise
            except Exception as error:  # noqa: BLE001 - returned to the host
                answer, data = {"error": str(error) or type(error).__name__}, b""
            self.send(answer, data)

    def do_ping(self, payload: bytes) -> Answer:
        """Return an empty answer."""
        return {}, b""

    def do_exec(
        self, stdin: bytes, argv: list[str], timeout_s: float, max_output_bytes: int, env: dict[str, str]
    ) -> Answer:
        """Run a command; return the fields of ``ExecResult``, stdout and stderr concatenated."""
        began, tick = time.monotonic(), int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_PER_SECOND)
        child, ends = start(argv, env, self.user, self.limits)
        pipes = CommandPipes(ends, stdin, max_output_bytes)
        try:
            until = min(began + timeout_s, self.ends_at)
            exit_code, reason = attend(child, pipes, self.exits, self.connection.fileno(), until)
        finally:
            pipes.close()
        self.check_connected(reason)
        if reason:
            kill_since(tick)
        reap()
        return self.result(exit_code, reason, began, len(pipes.output[0])), b"".join(pipes.output)

    def do_request(self, message: bytes, path: str, timeout_s: float, max_output_bytes: int) -> Answer:
        """Send a message to a unix socket in the sandbox; the exit code is the errno if no process listens."""
        began = time.monotonic()
        exit_code, reply, reason = 0, b"", ""
        try:
            with self.as_user():
                until = min(began + timeout_s, self.ends_at)
                reply, reason = request(path, message, max_output_bytes, self.connection.fileno(), until)
        except OSError as error:
            exit_code = error.errno or 1
        self.check_connected(reason)
        return self.result(exit_code, reason, began, len(reply)), reply

    def do_read(self, payload: bytes, path: str, max_bytes: int) -> Answer:
        """Return one file or all regular files below a folder: names and lengths, contents concatenated."""
        with self.as_user():
            names, data = read_tree(path, max_bytes)
        return {"files": names}, data

    def do_write(self, payload: bytes, files: list[tuple[str, int]], executable: bool) -> Answer:
        """Write files, given as names and lengths, contents concatenated."""
        with self.as_user():
            write_tree(files, payload, 0o755 if executable else 0o644)
        return {}, b""

    def do_reset(self, payload: bytes) -> Answer:
        """Restore the initial state of the sandbox."""
        end_all()
        with self.as_user():
            clear(self.modes)
        self.ooms = count_ooms()
        return {}, b""

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
        """Return whether the memory limit killed a process since the last call."""
        ooms, self.ooms = self.ooms, count_ooms()
        return self.ooms > ooms

    @contextlib.contextmanager
    def as_user(self) -> Iterator[None]:
        """Assume the rights of the sandbox user for access to files and sockets."""
        if self.user is None:
            yield
            return
        os.setegid(self.user)
        os.seteuid(self.user)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """Return the next request. Raises Disconnected."""
        header_bytes, payload_bytes = decode_lengths(self.take(LENGTHS.size))
        return decode_header(self.take(header_bytes)), self.take(payload_bytes)

    def take(self, size: int) -> bytes:
        """Return exactly ``size`` bytes from the host. Raises Disconnected."""
        parts = bytearray()
        while len(parts) < size:
            left = self.ends_at - time.monotonic()
            if left <= 0 or not select.select([self.connection], [], [], left)[0]:
                raise Disconnected
            part = self.connection.recv(min(size - len(parts), RECEIVE_BYTES))
            if not part:
                raise Disconnected
            parts += part
        return bytes(parts)

    def send(self, answer: dict[str, Any], data: bytes = b"") -> None:
        """Send one answer to the host. Raises Disconnected."""
        try:
            self.connection.sendall(encode(answer, data))
        except OSError:
            raise Disconnected from None


def make_undumpable() -> None:
    """Prevent other processes of the same user from tracing this process or reading its memory. Raises OSError."""
    import ctypes

    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def main(path: str, user: str, ttl_s: str, limits: str = "{}") -> None:
    """Connect to the socket at ``path`` and serve requests.

    Args:
        user: the uid of the commands, or ``-`` for the user of the guest agent.
        ttl_s: the sandbox's time to live, in seconds.
        limits: rlimits by name, as a JSON object.
    """
    if user == "-":
        make_undumpable()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(Disconnected):
        Server(connection, None if user == "-" else int(user), float(ttl_s), json.loads(limits)).serve()
