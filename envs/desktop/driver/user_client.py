"""Calls of the driver to the process that runs as the desktop's user (``user/launcher.py``)."""

from __future__ import annotations

import json
import os
import socket
from time import monotonic, sleep
from typing import Any

from .errors import DesktopLost

CHUNK_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.01


class UserClient:
    """The one connection to the launcher.

    Raises:
        DesktopLost: the launcher does not start, has ended, or could not execute a call.
    """

    def __init__(self, path: str) -> None:
        self.end = socket.socket(socket.AF_UNIX)
        self.received = bytearray()
        self.number = 0
        self.sent_in_part = False
        until = monotonic() + CONNECT_TIMEOUT_S
        while error := self.end.connect_ex(path):
            if monotonic() > until:
                raise DesktopLost(f"the launcher of the desktop does not start: {os.strerror(error)}")
            sleep(POLL_INTERVAL_S)

    def call(self, method: str, *arguments: Any) -> Any:
        """Execute a method of ``user.desktop.Desktop`` and return its value, which passes through JSON.

        A deadline may interrupt a call; the answer to it is then skipped by the next one.
        """
        self.number += 1
        request = {"number": self.number, "method": method, "arguments": arguments}
        answer: dict[str, Any] = {}
        try:
            self._send(json.dumps(request).encode() + b"\n")
            while answer.get("number") != self.number:
                answer = json.loads(self._line())
        except OSError as error:
            raise DesktopLost(f"the launcher of the desktop ended: {error}") from error
        if "error" in answer:
            raise DesktopLost(answer["error"])
        return answer["value"]

    def _send(self, message: bytes) -> None:
        if self.sent_in_part:
            raise ConnectionError("a call was interrupted while it was sent")
        self.sent_in_part = True
        self.end.sendall(message)
        self.sent_in_part = False

    def _line(self) -> bytes:
        while (size := self.received.find(b"\n") + 1) == 0:
            chunk = self.end.recv(CHUNK_BYTES)
            if not chunk:
                raise ConnectionError("it closed the connection")
            self.received += chunk
        line = bytes(self.received[:size])
        del self.received[:size]
        return line
