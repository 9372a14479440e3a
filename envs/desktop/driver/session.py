"""One desktop without applications: the driver's connections to its X server, its bus and its user's processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any, TypeVar

from .accessibility.dbus import Bus
from .errors import DesktopLost
from .screen.screen import Screen
from .user.desktop import DISPLAY, FOLDER
from .user_client import UserClient

T = TypeVar("T")
START_TIMEOUT_S = 12.0
POLL_INTERVAL_S = 0.005
REGISTRY = "org.a11y.atspi.Registry"
REGISTER_EVENTS = (
    REGISTRY,
    "/org/a11y/atspi/registry",
    REGISTRY,
    "RegisterEvent",
    "s",
    ("object:children-changed",),
)
"""Applications keep a table of their elements, read in one call, only while someone listens for its changes."""


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
        while not (self._managed() and self.bus.call(REGISTER_EVENTS, 1.0) is not None):
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

    def _managed(self) -> bool:
        return bool(self.screen.cardinals(self.screen.root, "_NET_SUPPORTING_WM_CHECK"))
