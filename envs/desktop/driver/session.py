"""The processes that every episode shares: the X server, the bus, the accessibility registry and the window manager."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from .accessibility.dbus import Bus
from .errors import DesktopLost
from .processes import kill_all
from .screen.screen import Screen

T = TypeVar("T")
HOME = "/home/user"
FOLDER = "/tmp/session"  # noqa: S108 - a path in the sandbox
DISPLAY = ":1"
SCREEN = "1024x768x24"
START_TIMEOUT_S = 12.0
STOP_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.005
WINDOW_MANAGER = "openbox"
REGISTRY = "org.a11y.atspi.Registry"
BUS_CONFIGURATION = f"""<busconfig><type>session</type><listen>unix:path={FOLDER}/bus</listen><auth>EXTERNAL</auth>
<servicedir>/usr/share/dbus-1/services</servicedir>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy><limit name="max_replies_per_connection">50000</limit></busconfig>"""
"""One observation has hundreds of calls on their way at once; the bus would refuse all after the first 128."""
ENVIRONMENT = {
    "AT_SPI_BUS_ADDRESS": f"unix:path={FOLDER}/bus",
    "DBUS_SESSION_BUS_ADDRESS": f"unix:path={FOLDER}/bus",
    "DISPLAY": DISPLAY,
    "GDK_CORE_DEVICE_EVENTS": "1",
    "GSETTINGS_BACKEND": "keyfile",
    "GTK_IM_MODULE": "gtk-im-context-simple",
    "GTK_MODULES": "gail:atk-bridge",
    "GTK_OVERLAY_SCROLLING": "0",
    "GVFS_DISABLE_FUSE": "1",
    "HOME": HOME,
    "LANG": "C.UTF-8",
    "LD_PRELOAD": "libnss_wrapper.so",
    "LOGNAME": "user",
    "NO_AT_BRIDGE": "0",
    "NSS_WRAPPER_GROUP": f"{FOLDER}/group",
    "NSS_WRAPPER_PASSWD": f"{FOLDER}/passwd",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
    "PWD": HOME,
    "SHELL": "/bin/bash",
    "TZ": "UTC",
    "USER": "user",
    "XDG_CURRENT_DESKTOP": "turnwise",
    "XDG_RUNTIME_DIR": FOLDER,
}


class Session:
    """One desktop without applications; ``start`` replaces a previous one.

    Raises:
        DesktopLost: a part did not start, or ended.
    """

    def __init__(self) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.screen: Screen
        self.bus: Bus

    @property
    def pids(self) -> frozenset[int]:
        """The processes that a reset keeps."""
        return frozenset(process.pid for process in self.processes.values())

    @property
    def servers(self) -> frozenset[int]:
        """The processes whose timers have no effect on the screen."""
        return frozenset(process.pid for name, process in self.processes.items() if name != WINDOW_MANAGER)

    def start(self) -> None:
        """Start all parts, after ending every other process of this user."""
        self.stop()
        shutil.rmtree(FOLDER, ignore_errors=True)
        shutil.rmtree("/tmp/.X11-unix", ignore_errors=True)  # noqa: S108 - a path in the sandbox
        Path(f"/tmp/.X{DISPLAY[1:]}-lock").unlink(missing_ok=True)  # noqa: S108 - a path in the sandbox
        os.makedirs(FOLDER, 0o700)
        os.makedirs("/tmp/.X11-unix", 0o1777)  # noqa: S108 - a path in the sandbox
        os.makedirs(os.path.realpath(HOME), exist_ok=True)
        user, group = os.getuid(), os.getgid()
        Path(f"{FOLDER}/passwd").write_text(f"root:x:0:0:root:/:/bin/sh\nuser:x:{user}:{group}:user:{HOME}:/bin/bash\n")
        Path(f"{FOLDER}/group").write_text(f"root:x:0:\nuser:x:{group}:\n")
        Path(f"{FOLDER}/bus.conf").write_text(BUS_CONFIGURATION)
        self._run("dbus-daemon", f"--config-file={FOLDER}/bus.conf", "--nofork", "--nopidfile")
        options = ("-screen", "0", SCREEN, "-nolisten", "tcp", "-ac", "-noreset", "-r", "-s", "0", "-dpi", "96")
        self._run("Xvfb", DISPLAY, *options)
        until = monotonic() + START_TIMEOUT_S
        self.screen = self._retry("Xvfb", lambda: Screen(DISPLAY), until)
        self.bus = self._retry("dbus-daemon", lambda: Bus(f"{FOLDER}/bus"), until)
        self._run("/usr/libexec/at-spi2-registryd")
        self._run(WINDOW_MANAGER, "--sm-disable")
        while not (self._managed() and self.bus.call(REGISTER_EVENTS, 1.0) is not None):
            self.check()
            if monotonic() > until:
                raise DesktopLost("the window manager or the accessibility registry did not start")
            sleep(POLL_INTERVAL_S)
        self.screen.paint_background()

    def check(self) -> None:
        """Raise DesktopLost if a part has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise DesktopLost(f"{os.path.basename(name)} ended")

    def stop(self) -> None:
        """End every process of this user but this one."""
        if hasattr(self, "screen"):
            # Closing politely could wait for a dead server.
            with contextlib.suppress(OSError):
                self.screen.display.display.socket.close()
        if hasattr(self, "bus"):
            self.bus.close()
        kill_all(frozenset())
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
        self.processes.clear()

    def launch(self, command: str) -> subprocess.Popen[bytes]:
        """Start an application by a shell command in the home folder."""
        return subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command}"],
            cwd=HOME,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _run(self, *argv: str) -> None:
        log = open(f"/tmp/{os.path.basename(argv[0])}.log", "wb")  # noqa: S108, SIM115 - a path in the sandbox
        with log:
            self.processes[argv[0]] = subprocess.Popen(
                argv,
                cwd="/",
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

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


REGISTER_EVENTS = (
    REGISTRY,
    "/org/a11y/atspi/registry",
    REGISTRY,
    "RegisterEvent",
    "s",
    ("object:children-changed",),
)
"""Applications keep a table of their elements, read in one call, only while someone listens for its changes."""
