"""The processes of the desktop's user: the servers that every episode shares, and the applications of an episode."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from . import files
from .processes import all_processes, kill_all, own_limits, runs_other, wait_for_rest

HOME = "/home/user"
FOLDER = "/tmp/session"  # noqa: S108 - a path in the sandbox
X_FOLDER = "/tmp/.X11-unix"  # noqa: S108 - a path in the sandbox
DISPLAY = ":1"
X_LOCK = f"/tmp/.X{DISPLAY[1:]}-lock"  # noqa: S108 - a path in the sandbox
STOP_TIMEOUT_S = 2.0
POLL_INTERVAL_S = 0.003
WINDOW_MANAGER = "openbox"
BUS_CONFIGURATION = f"""<busconfig><type>session</type><listen>unix:path={FOLDER}/bus</listen><auth>EXTERNAL</auth>
<servicedir>/usr/share/dbus-1/services</servicedir>
<policy context="default"><allow user="*"/><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/></policy><limit name="max_replies_per_connection">50000</limit></busconfig>"""
"""The driver, another user, connects too. One observation has hundreds of calls on their way at once; the bus would
refuse all after the first 128.
"""
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


class Desktop:
    """One desktop; the public methods are the calls of the driver, with values that JSON holds.

    ``screen`` is its display: width, height and bits per pixel, as in ``1024x768x24``.

    Raises:
        OSError: a folder or a process cannot be made or removed.
    """

    def __init__(self, screen: str) -> None:
        self._screen = screen
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        self._applications: dict[str, subprocess.Popen[bytes]] = {}
        """The applications of the episode, by command."""
        self._limits = own_limits()
        self._session_files: dict[str, Any] = {}
        self._ran_other = False
        """Whether the episode ran other programs than applications."""

    def start_servers(self) -> None:
        """Start the bus and the X server in new folders, after ending every other process of this user."""
        kill_all(frozenset())
        self._reap([*self._servers.values(), *self._applications.values()])
        self._servers.clear()
        self._applications.clear()
        for folder in (FOLDER, X_FOLDER):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            # The driver connects to the sockets in them.
            os.chmod(folder, 0o755)  # noqa: S103
        Path(X_LOCK).unlink(missing_ok=True)
        os.makedirs(os.path.realpath(HOME), exist_ok=True)
        user, group = os.getuid(), os.getgid()
        accounts = f"root:x:0:0:root:/:/bin/sh\nuser:x:{user}:{group}:user:{HOME}:/bin/bash\n"
        Path(f"{FOLDER}/passwd").write_text(f"{accounts}driver:x:{user + 1}:{group + 1}:driver:/:/bin/false\n")
        Path(f"{FOLDER}/group").write_text(f"root:x:0:\nuser:x:{group}:\ndriver:x:{group + 1}:\n")
        Path(f"{FOLDER}/bus.conf").write_text(BUS_CONFIGURATION)
        self._run("dbus-daemon", f"--config-file={FOLDER}/bus.conf", "--nofork", "--nopidfile")
        options = ("-screen", "0", self._screen, "-nolisten", "tcp", "-ac", "-noreset", "-r", "-s", "0", "-dpi", "96")
        # Without GLX, no program loads Mesa.
        self._run("Xvfb", DISPLAY, *options, "-extension", "GLX")

    def start_clients(self) -> None:
        """Start the accessibility registry and the window manager; the servers answer already."""
        self._run("/usr/libexec/at-spi2-registryd")
        self._run(WINDOW_MANAGER, "--sm-disable")

    def complete(self) -> None:
        """Take the state of the session's folders, as every episode finds them."""
        self._session_files = files.state(FOLDER, X_FOLDER, X_LOCK)
        self._ran_other = False

    def status(self) -> dict[str, Any]:
        """Return ``ended``, the name of a server that has ended or nothing, and the crashes since the last call.

        ``crashes`` are the commands of applications that a signal ended, with its number.
        """
        ended = {command: one.poll() for command, one in self._applications.items()}
        for command, code in ended.items():
            if code is not None:
                del self._applications[command]
        return {
            "ended": next(
                (os.path.basename(name) for name, one in self._servers.items() if one.poll() is not None), ""
            ),
            "crashes": [(command, -code) for command, code in ended.items() if code is not None and code < 0],
        }

    def launch(self, command: str) -> None:
        """Start an application by a shell command in the home folder."""
        self._applications[command] = self._start(["/bin/sh", "-c", f"exec {command}"], HOME)

    def end_applications(self) -> list[str]:
        """End every process but the servers; return the reasons why the next episode needs new servers.

        Raises:
            PermissionError: the agent's programs changed the limits of this process, which only a new one gets back.
        """
        self._look(all_processes())
        used = ["the agent ran programs of its choice"] if self._ran_other else []
        left = kill_all(frozenset(server.pid for server in self._servers.values()))
        self._reap(list(self._applications.values()))
        self._applications.clear()
        if own_limits() != self._limits:
            raise PermissionError("the limits of the launcher were changed")
        return used + left

    def restore_files(self) -> list[str]:
        """Empty the writable folders and remove IPC; return what differs in the folders of the session."""
        files.clear()
        return files.restore(self._session_files, FOLDER, X_FOLDER, X_LOCK)

    def write_home(self, documents: Mapping[str, str], settings: Mapping[str, Mapping[str, str]]) -> None:
        """Write the home folder: files as base64 by relative path, and settings by schema and key."""
        files.write_home(documents, settings)

    def rest(self, timeout_s: float, hold_s: float, extension_s: float) -> dict[str, Any]:
        """Wait until all processes rest, for ``hold_s`` at least; return the status, with ``rests``, whether they do.

        ``timeout_s`` and ``extension_s`` limit the wait.
        """
        untimed = frozenset(one.pid for name, one in self._servers.items() if name != WINDOW_MANAGER)
        rests = wait_for_rest(untimed, timeout_s, hold_s, extension_s, self._look)
        return {"rests": rests, **self.status()}

    def state(self) -> list[Any]:
        """Return the processes and files that tell a fresh episode from a used one."""
        self.status()
        pids = sorted(all_processes())
        self._look(pids)
        return [self._ran_other, pids, files.listing(HOME), files.listing("/tmp")]  # noqa: S108 - in the sandbox

    def _look(self, pids: list[int]) -> None:
        """Notice programs that can change the X server in ways that nobody can compare, such as its atoms."""
        if not self._ran_other:
            started = {application.pid for application in self._applications.values()}
            self._ran_other = runs_other(pid for pid in pids if pid not in started)

    def _run(self, *argv: str) -> None:
        self._servers[argv[0]] = self._start(argv, "/")

    def _start(self, argv: list[str] | tuple[str, ...], folder: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _reap(self, processes: list[subprocess.Popen[bytes]]) -> None:
        """Collect killed children."""
        until = monotonic() + STOP_TIMEOUT_S
        while [process for process in processes if process.poll() is None] and monotonic() < until:
            sleep(POLL_INTERVAL_S)
