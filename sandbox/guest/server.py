"""Requests and answers over one connection to the host; ``link`` is its other end. A frame is two lengths, a JSON
header and a payload of bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any, NoReturn

from .exec import Wake, Watched, attend, start
from .files import read_tree, write_tree
from .processes import count_ooms, end_all, kill_all, kill_since, reap
from .request import request
from .reset import clear, modes

FRAME = struct.Struct("!II")
TICK = os.sysconf("SC_CLK_TCK")
PR_SET_DUMPABLE = 4

Answer = tuple["dict[str, Any]", bytes]


class Gone(Exception):
    """The host's end is closed, or the time to live is over."""


class Server:
    """Answers requests one at a time. ``user`` is the payload's uid and gid; None: the server's own. ``limits`` are
    rlimits of what it runs, by their names without RLIMIT.
    """

    def __init__(self, connection: socket.socket, user: int | None, ttl: float, limits: dict[str, int]) -> None:
        self.connection = connection
        self.user = user
        self.limits = limits
        self.ends = time.monotonic() + ttl
        self.wake = Wake()
        self.ooms = count_ooms()
        self.places = modes()

    def serve(self) -> NoReturn:
        """Answer until the host is gone. Raises Gone."""
        self.send({"python": sys.version.split()[0]})
        while True:
            request, payload = self.receive()
            try:
                answer, data = getattr(self, "do_" + request.pop("op"))(payload, **request)
            except OSError as error:
                answer, data = {"error": f"{os.strerror(error.errno or 0)}: {error.filename or ''}"}, b""
            except Gone:
                raise
            except Exception as error:
                answer, data = {"error": str(error) or type(error).__name__}, b""
            self.send(answer, data)

    def do_ping(self, payload: bytes) -> Answer:
        """Nothing; for measuring the wire."""
        return {}, b""

    def do_exec(self, stdin: bytes, argv: list[str], timeout_s: float, cap: int, env: dict[str, str]) -> Answer:
        """Run a command; see ``protocol.Sandbox.exec``."""
        began, tick = time.monotonic(), int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICK)
        child, pipes = start(argv, env, self.user, self.limits)
        watch = Watched(pipes, stdin, cap)
        try:
            code, why = attend(child, watch, self.wake, self.connection.fileno(), min(began + timeout_s, self.ends))
        finally:
            watch.close()
        if why == "gone" or time.monotonic() >= self.ends:
            kill_all()
            raise Gone
        if why:
            kill_since(tick)
        reap()
        answer = {
            "exit_code": code,
            "timed_out": why == "deadline",
            "flooded": why == "flood",
            "oom": self.oom(),
            "seconds": time.monotonic() - began,
            "stdout": len(watch.kept[0]),
        }
        return answer, b"".join(watch.kept)

    def do_ask(self, message: bytes, path: str, timeout_s: float, cap: int) -> Answer:
        """See ``protocol.Sandbox.ask``."""
        began = time.monotonic()
        code, data, why = 0, b"", ""
        try:
            with self.as_payload():
                data, why = request(path, message, cap, self.connection.fileno(), min(began + timeout_s, self.ends))
        except OSError as error:
            code = error.errno or 1
        if why == "gone" or time.monotonic() >= self.ends:
            kill_all()
            raise Gone
        answer = {
            "exit_code": code,
            "timed_out": why == "deadline",
            "flooded": why == "flood",
            "oom": self.oom(),
            "seconds": time.monotonic() - began,
            "stdout": len(data),
        }
        return answer, data

    def do_read(self, payload: bytes, path: str, cap: int) -> Answer:
        """See ``protocol.Sandbox.read``."""
        with self.as_payload():
            names, data = read_tree(path, cap)
        return {"files": names}, data

    def do_write(self, payload: bytes, files: list[tuple[str, int]], executable: bool) -> Answer:
        """See ``protocol.Sandbox.write``."""
        with self.as_payload():
            write_tree(files, payload, 0o755 if executable else 0o644)
        return {}, b""

    def do_reset(self, payload: bytes) -> Answer:
        """Leave the box as it was when it started."""
        end_all()
        with self.as_payload():
            clear(self.places)
        self.ooms = count_ooms()
        return {}, b""

    def oom(self) -> bool:
        """Whether the memory limit has killed something since this was last asked."""
        ooms, self.ooms = self.ooms, count_ooms()
        return self.ooms > ooms

    @contextlib.contextmanager
    def as_payload(self) -> Iterator[None]:
        """Files are touched with the payload's rights."""
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
        """The next request. Raises Gone."""
        size, length = FRAME.unpack(self.take(FRAME.size))
        return json.loads(self.take(size)), self.take(length)

    def take(self, size: int) -> bytes:
        """Exactly so many bytes of the host's. Raises Gone."""
        parts = bytearray()
        while len(parts) < size:
            left = self.ends - time.monotonic()
            if left <= 0 or not select.select([self.connection], [], [], left)[0]:
                raise Gone
            part = self.connection.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise Gone
            parts += part
        return bytes(parts)

    def send(self, answer: dict[str, Any], data: bytes = b"") -> None:
        """Answer the host. Raises Gone."""
        head = json.dumps(answer).encode()
        try:
            self.connection.sendall(FRAME.pack(len(head), len(data)) + head + data)
        except OSError:
            raise Gone from None


def not_dumpable() -> None:
    """No process of the same user may trace this one or look into its memory and files from now on."""
    import ctypes

    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def main(path: str, user: str, ttl: str, limits: str = "{}") -> None:
    """Dial the socket at ``path`` and serve. ``user`` is a uid, or ``-`` for this one; ``limits`` a JSON object."""
    if user == "-":
        not_dumpable()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(Gone):
        Server(connection, None if user == "-" else int(user), float(ttl), json.loads(limits)).serve()
