"""A browser in a sandbox with the task's own site next to it: ``DriverClient`` for the driver of ``driver/``.

The site's server, files and database belong to a user of the sandbox that neither browser nor driver runs as.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ....sandbox import SandboxError, SandboxLease, SandboxSpec
from ..computer.driver_client import DriverClient, DriverProgram, Program, Steps, main_command

FILES_TIMEOUT_S = 10.0
START_TIMEOUT_S = 30.0

ROOT = "/tmp/site"  # noqa: S108 - a path in the sandbox
"""The private folder of the server's user; ``files`` in it is the site's folder."""
FILES = f"{ROOT}/files"
STOP_SCRIPT, START_SCRIPT = ((Path(__file__).parent / f"{verb}_site.sh").read_text() for verb in ("stop", "start"))
SERVER_ENDED = 2


@dataclass(frozen=True, slots=True)
class SiteServer:
    """A site to serve: ``command`` runs in the site's folder and listens on 127.0.0.1:``port``."""

    files: Mapping[str, bytes]
    """By path in the site's folder."""
    command: str
    port: int

    def start(self, sandbox: SandboxLease, user: int) -> None:
        """Replace the site and its server, which run as ``user``, and wait until the new server listens.

        Raises:
            SandboxError: the server ended or does not listen; the message ends with its output.
        """
        stopped = sandbox.exec(["sh", "-c", STOP_SCRIPT, "sh", ROOT], timeout_s=FILES_TIMEOUT_S, user=user)
        if stopped.exit_code:
            reason = stopped.stderr.decode(errors="replace").strip()[-500:]
            raise SandboxError(f"the previous site could not be removed: {reason}")
        files = {f"{FILES}/{path}": content for path, content in self.files.items()}
        sandbox.write(files, timeout_s=FILES_TIMEOUT_S, user=user)
        starting = ["bash", "-c", START_SCRIPT, "bash", ROOT, self.command, str(self.port)]
        result = sandbox.exec(starting, timeout_s=START_TIMEOUT_S, user=user)
        if result.exit_code:
            output = (result.stdout + result.stderr).decode(errors="replace").strip()[-500:]
            ended = result.exit_code == SERVER_ENDED
            problem = "ended at once" if ended else f"is running but not listening on 127.0.0.1:{self.port}"
            raise SandboxError(f"the site's server {problem} (command: `{self.command}`): {output or 'no output'}")


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
        super().__init__(
            BROWSER, [Program(f"server{place}", server, SITE_USER) for place, server in enumerate(servers)]
        )
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

    def details(self, steps: Steps) -> str:
        """Return the action or the address, and the command and the last output of the site's server."""
        found = [f"{step.get('url') or step['action']}" for step in steps if step["do"] in ("open", "act")]
        if self._server is not None and self.sandbox is not None:
            log = b""
            with suppress(SandboxError):
                tail = ["tail", "-c", "500", f"{ROOT}/log"]
                log = self.sandbox.exec(tail, timeout_s=FILES_TIMEOUT_S, user=SITE_USER).stdout.strip()
            output = log.decode(errors="replace") or "none"
            found.append(f"the server's command: `{self._server.command}`; its last output: {output}")
        return f" ({'; '.join(found)})"

    def prepare(self, sandbox: SandboxLease) -> None:
        """Start the site's server in a new sandbox."""
        if self._server is not None:
            self._server.start(sandbox, SITE_USER)
