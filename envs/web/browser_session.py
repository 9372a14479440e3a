"""A browser in a sandbox with the task's own site next to it: ``DriverClient`` for the driver of ``driver/``."""

from collections.abc import Sequence
from pathlib import Path

from ...sandbox import FileError, NodeLost, SandboxLease, SandboxLost, SandboxSpec
from ..computer.driver_client import STEP_TIMEOUT_S, DriverClient, DriverProgram
from .site_server import SiteServer

SPEC = SandboxSpec(image="web", memory_mib=1024, cpus=2.0, pids=512, disk_mib=64, read_mib=64, output_kib=8192)
SOCKET = "/tmp/browser"  # noqa: S108 - a path in the sandbox
MAIN = f"import sys; sys.path[:0] = ['/opt/browser', '/workspace']; from driver.server import main; main('{SOCKET}')"
BROWSER = DriverProgram(
    name="browser",
    spec=SPEC,
    package=Path(__file__).parent / "driver",
    command=f'python3 -I -c "{MAIN}"',
    socket=SOCKET,
)


class BrowserSession(DriverClient):
    """Chromium in a sandbox; ``servers`` are shell commands that keep running next to it."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        super().__init__(BROWSER, servers)
        self._server: SiteServer | None = None

    def serve(self, server: SiteServer) -> None:
        """Start a site's server in place of the previous one, in a new sandbox if the present one fails.

        Raises:
            SandboxError: the server does not start.
        """
        self._server = server
        if self.sandbox is None or self.expired:
            self.renew()
            return
        try:
            server.start(self.sandbox)
        except (SandboxLost, NodeLost):
            self.renew()

    def read_files(self, folder: str) -> dict[str, bytes] | None:
        """Return the files of a folder of the sandbox; None if they cannot be read or the browser is gone.

        Raises:
            SandboxError: the sandbox or its driver failed.
        """
        if self.sandbox is None:
            return None
        try:
            return self.sandbox.read(folder, timeout_s=STEP_TIMEOUT_S)
        except FileError:
            return None

    def prepare(self, sandbox: SandboxLease) -> None:
        """Start the site's server in a new sandbox."""
        if self._server is not None:
            self._server.start(sandbox)
