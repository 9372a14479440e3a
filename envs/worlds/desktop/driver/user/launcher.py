"""Execute the driver's calls as the desktop's user, whose uid is the one before the driver's.

The driver connects once, before any application runs; nobody can connect after it. A call is a line of JSON with
``number``, ``method`` and ``arguments``; its answer has the ``number`` and ``value`` or ``error``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
from typing import Any

from .desktop import Desktop

CREDENTIALS = struct.Struct("3i")
PR_SET_DUMPABLE = 4


def main(path: str, screen: str) -> None:
    """Listen on a unix socket at ``path``, and serve the driver of a ``screen`` until it closes the connection.

    Raises:
        OSError: the process cannot be protected, or the socket cannot be made.
    """
    make_undumpable()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        # The uid of the other end decides who is served.
        os.chmod(path, 0o666)  # noqa: S103
        listener.listen()
        connection = driver_of(listener)
    os.unlink(path)
    with connection:
        serve(connection, Desktop(screen))


def make_undumpable() -> None:
    """Prevent other processes of the same user from tracing this process or reading its memory. Raises OSError."""
    if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def driver_of(listener: socket.socket) -> socket.socket:
    """Return the first connection of the driver's user."""
    while True:
        connection, _ = listener.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        if CREDENTIALS.unpack(credentials)[1] == os.getuid() + 1:
            return connection
        connection.close()


def serve(connection: socket.socket, desktop: Desktop) -> None:
    """Execute calls until the connection ends."""
    with connection.makefile("rb") as lines, contextlib.suppress(ConnectionError):
        for line in lines:
            request = json.loads(line)
            answer: dict[str, Any] = {"number": request["number"]}
            try:
                answer["value"] = getattr(desktop, request["method"])(*request["arguments"])
            except Exception as error:  # noqa: BLE001 - returned to the driver
                answer["error"] = f"{type(error).__name__}: {error}"[:300]
            connection.sendall(json.dumps(answer).encode() + b"\n")
