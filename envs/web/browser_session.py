"""A browser in a sandbox with the task's own site next to it: ``DriverClient`` for the driver of ``driver/``."""

from collections.abc import Sequence

from ...sandbox import SandboxError, SandboxLease, SandboxSpec
from ..computer.driver_client import DriverClient, DriverProgram, Program, main_command
from .site_server import SiteServer

SPEC = SandboxSpec(image="web", memory_mib=1024, cpus=2.0, pids=512, disk_mib=64, read_mib=64, output_kib=8192)
BROWSER_USER, DRIVER_USER, SITE_USER = 0, 1, 2
"""Users of a sandbox: a page that takes over Chromium has no rights to the driver, to the site or to its database."""
SOCKET = "/tmp/driver/socket"  # noqa: S108 - a path in the sandbox
LAUNCHER_SOCKET = "/tmp/launcher.socket"  # noqa: S108 - a path in the sandbox
LIBRARIES = ("/opt/browser",)
BROWSER = DriverProgram(
    name="browser",
    spec=SPEC,
    command=main_command("driver.server", SOCKET, LAUNCHER_SOCKET, libraries=LIBRARIES),
    socket=SOCKET,
    user=DRIVER_USER,
    helpers=(Program("launcher", main_command("driver.launcher", LAUNCHER_SOCKET, libraries=LIBRARIES), BROWSER_USER),),
)


class BrowserSession(DriverClient):
    """Chromium in a sandbox; ``servers`` are shell commands that keep running next to it, as ``SITE_USER``."""

    def __init__(self, servers: Sequence[str] = ()) -> None:
        super().__init__(BROWSER, [Program(f"server{place}", one, SITE_USER) for place, one in enumerate(servers)])
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
            # The page of the previous episode must send no request to the new site.
            self.do([{"do": "end"}])
            if self.sandbox is not None:
                server.start(self.sandbox, SITE_USER)
                return
        except SandboxError:
            # An earlier episode may have filled the disk, among other damage.
            pass
        self.renew()

    def prepare(self, sandbox: SandboxLease) -> None:
        """Start the site's server in a new sandbox."""
        if self._server is not None:
            self._server.start(sandbox, SITE_USER)
