"""A desktop in a sandbox: ``DriverClient`` for the driver of ``driver/``, and what the host reads there itself."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ....sandbox import Entry, FileError, SandboxBroken, SandboxSpec, Tree
from ..computer.driver_client import STEP_TIMEOUT_S, DriverClient, DriverProgram, Program, main_command
from .task import DesktopTask

SPEC = SandboxSpec(image="desktop", memory_mib=1024, cpus=2.0, pids=256, disk_mib=128, read_mib=64, output_kib=8192)
DESKTOP_USER, DRIVER_USER = 0, 1
"""Users of a sandbox: the agent's programs have no rights to the driver, which observes them."""
SOCKET = "/tmp/driver/socket"  # noqa: S108 - a path in the sandbox
LAUNCHER_SOCKET = "/tmp/launcher.socket"  # noqa: S108 - a path in the sandbox
WIDTH, HEIGHT = 1024, 768
"""Pixels of the display."""
WRITABLE = ("workspace", "tmp", "dev/shm")
"""The folders of the sandbox that the agent's programs can write."""


class DesktopSession(DriverClient):
    """A desktop in a sandbox, with a display of ``width`` x ``height`` pixels."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        super().__init__(_program(width, height))

    def world(self) -> Tree | None:
        """Return everything that the agent can leave, by path from the root; None if not all of it can be read.

        Raises:
            SandboxError: the sandbox failed.
        """
        if self.sandbox is None:
            return None
        entries: dict[str, Entry] = {}
        try:
            for folder in WRITABLE:
                found = self.sandbox.read_tree(f"/{folder}", timeout_s=STEP_TIMEOUT_S, user=DESKTOP_USER)
                entries.update((f"{folder}/{path}", entry) for path, entry in found.entries.items())
        except (FileError, SandboxBroken):
            return None
        return Tree(entries)


def _program(width: int, height: int) -> DriverProgram:
    launcher = main_command("driver.user.launcher", LAUNCHER_SOCKET, f"{width}x{height}x24")
    return DriverProgram(
        name="desktop",
        spec=SPEC,
        command=main_command("driver.server", SOCKET, LAUNCHER_SOCKET),
        socket=SOCKET,
        user=DRIVER_USER,
        helpers=(Program("launcher", launcher, DESKTOP_USER),),
        encodes=True,
    )


def opening(
    task: DesktopTask, undo: Sequence[Mapping[str, Any]] | None = None, prepare: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return the step that opens a task.

    ``undo`` are the actions that undo an episode in place, ``prepare`` those before the first observation.
    """
    return {
        "do": "open",
        "applications": list(task.applications),
        "files": {path: base64.b64encode(content).decode() for path, content in task.files.items()},
        "settings": {schema: dict(values) for schema, values in task.settings.items()},
        "prepare": [dict(action) for action in prepare],
        **({} if undo is None else {"undo": [dict(action) for action in undo]}),
    }
