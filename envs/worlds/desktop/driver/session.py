"""One desktop without applications: the driver's connections to its X server, its bus and its user's processes.

``UserClient`` calls the launcher, which runs those processes; ``Session`` starts and checks a desktop; ``settle`` waits
until its processes rest.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any, TypeVar

from .accessibility.dbus import Bus
from .deadline import left_s
from .errors import DesktopLost
from .screen import Screen
from .user.desktop import DISPLAY, FOLDER

T = TypeVar("T")
CHUNK_BYTES = 1 << 18
CONNECT_TIMEOUT_S = 20.0
START_TIMEOUT_S = 12.0
POLL_INTERVAL_S = 0.005
REGISTRY = "org.a11y.atspi.Registry"
REGISTER_EVENTS = (REGISTRY, "/org/a11y/atspi/registry", REGISTRY, "RegisterEvent", "s", ("object:children-changed",))
"""Applications keep a table of their elements, read in one call, only while someone listens for its changes."""
SETTLE_TIMEOUT_S = 1.5
OPEN_HOLD_S = 0.1
"""Rest must hold so long after an application started: it may begin more work once its window is there."""
EXTENSION_S = 4.0
"""Extra time for threads that are ready to run but do not get a processor, on a loaded machine."""


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


class Session:
    """One desktop without applications; ``start`` replaces a previous one.

    Raises:
        DesktopLost: a part did not start, or ended.
    """

    def __init__(self, user: UserClient) -> None:
        self.user = user
        self.screen: Screen
        self.bus: Bus
        self.crashes: list[str] = []
        """Applications that crashed since an observation reported them."""

    def start(self) -> None:
        """Start all parts, after ending every process of the desktop's user."""
        self.close()
        self.user.call("start_servers")
        until = monotonic() + START_TIMEOUT_S
        self.screen = self._retry("Xvfb", lambda: Screen(DISPLAY), until)
        self.bus = self._retry("dbus-daemon", lambda: Bus(f"{FOLDER}/bus"), until)
        self.user.call("start_clients")
        root, manager = self.screen.root, "_NET_SUPPORTING_WM_CHECK"
        while not (self.screen.cardinals(root, manager) and self.bus.call(REGISTER_EVENTS, 1.0) is not None):
            self.check()
            if monotonic() > until:
                raise DesktopLost("the window manager or the accessibility registry did not start")
            sleep(POLL_INTERVAL_S)
        self.screen.paint_background()

    def check(self) -> None:
        """Raise DesktopLost if a part has ended."""
        self.take(self.user.call("status"))

    def take(self, status: Mapping[str, Any]) -> None:
        """Note the crashes of a status of ``user.desktop.Desktop``. Raises DesktopLost if a part has ended."""
        self.crashes += [f"{command} crashed (signal {number})" for command, number in status["crashes"]]
        if status["ended"]:
            raise DesktopLost(f"{status['ended']} ended")

    def close(self) -> None:
        """Close the connections to the X server and the bus."""
        if hasattr(self, "screen"):
            self.screen.close()
            del self.screen
        if hasattr(self, "bus"):
            self.bus.close()
            del self.bus

    def _retry(self, part: str, make: Callable[[], T], until: float) -> T:
        while True:
            try:
                return make()
            except Exception as error:
                self.check()
                if monotonic() > until:
                    raise DesktopLost(f"{part} did not start: {error}") from error
            sleep(POLL_INTERVAL_S)


def settle(session: Session, timeout_s: float = SETTLE_TIMEOUT_S, hold_s: float = 0.0) -> bool:
    """Wait until all processes rest, for ``hold_s`` at least; return False if some still work after the timeout.

    The wait ends with the deadline of the request, too: the launcher serves one call at a time.

    Raises:
        DesktopLost: the launcher or a part of the session has ended.
    """
    session.screen.sync()
    left = left_s()
    left = timeout_s + EXTENSION_S if left is None else left
    timeout_s = min(timeout_s, left)
    status = session.user.call("rest", timeout_s, hold_s, min(EXTENSION_S, left - timeout_s))
    session.take(status)
    return bool(status["rests"])
