"""The blocking client of a driver in a sandbox: lease, start, send steps, receive observations, replace a lost sandbox.

A driver listens on a unix socket in its sandbox. Each connection carries one request, ``{"steps": […], "deadline":
seconds}``, and one answer: a line of JSON, then the bytes of a PNG. Four keys of the answer report damage:

* ``lost``: the page or window was given up, for this reason; the episode continues.
* ``fault``: who caused that, ``page`` or ``machine``.
* ``broken``: the reason that the driver has no screen left.
* ``failed``: an error of the driver itself.

One sandbox serves many episodes, because a new episode in a running driver costs a tenth of a new sandbox. An episode
can damage its own screen only: the driver replaces it, and the episode continues or is evaluated. The loss of the
sandbox, or of a driver that does not restart, is a failure of the environment, unless the agent's page is at fault.
"""

import contextlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Any

from ....sandbox import FileError, NodeLost, SandboxBroken, SandboxError, SandboxLease, SandboxLost, SandboxSpec, lease
from ....sandbox.errors import StartFailed
from ....sandbox.images.reference import PROGRAMS_FOLDER
from ...spaces import Png

LEASE_TIMEOUT_S = 15.0
START_TIMEOUT_S = 45.0
OPEN_TIMEOUT_S = 15.0
START_SLOTS = threading.BoundedSemaphore(os.cpu_count() or 1)
"""Drivers that this process starts at the same time; with more of them, each start would exceed its timeout."""
START_QUEUE_TIMEOUT_S = 60.0
STEP_TIMEOUT_S = 10.0
"""Timeout of one action with its observation, after which the driver gives up the page."""
RECOVERY_ALLOWANCE_S = 27.0
"""Extra time in which the driver finds who is at fault, gives up a page and, if necessary, restarts its program."""
MAX_LEASE_S = 1800.0
"""Sandboxes are replaced between episodes after half of this time."""
POLL_INTERVAL_S = 0.02
PAGE, MACHINE = "page", "machine"
"""The causes of a lost page: the agent's actions there, an outcome, or the machine, a failure of the environment."""

Steps = Sequence[Mapping[str, Any]]


def request_timeout_s(deadline_s: float) -> float:
    """Return the timeout of a request whose steps may take ``deadline_s`` seconds."""
    return deadline_s + RECOVERY_ALLOWANCE_S


def main_command(module: str, *arguments: str, libraries: Sequence[str] = ()) -> str:
    """Return the shell command that calls ``main`` of a module of the image's programs.

    ``libraries`` are more folders of the sandbox to import from.
    """
    called = f"from {module} import main; main({', '.join(map(repr, arguments))})"
    return f'python3 -I -c "import sys; sys.path[:0] = {[*libraries, PROGRAMS_FOLDER]}; {called}"'


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs in a sandbox until the end of the lease, in a private folder, with its output in ``log``."""

    name: str
    command: str
    """A shell command."""
    user: int
    """The user of the sandbox that runs it."""

    @property
    def folder(self) -> str:
        """The path of the program's folder in the sandbox."""
        return f"/tmp/{self.name}"  # noqa: S108 - a path in the sandbox

    def start(self, sandbox: SandboxLease) -> None:
        """Make the folder and start the command in it. Raises SandboxError: the folder exists already."""
        script = f"umask 077; mkdir {self.folder} && cd {self.folder} || exit 1\n{self.command} >log 2>&1 </dev/null &"
        result = sandbox.exec(["sh", "-c", script], timeout_s=STEP_TIMEOUT_S, user=self.user)
        if result.exit_code:
            raise SandboxError(f"the {self.name} did not start: {result.stderr.decode(errors='replace').strip()}")

    def log(self, sandbox: SandboxLease) -> str:
        """Return the end of the output."""
        log = sandbox.read(self.folder, timeout_s=STEP_TIMEOUT_S, user=self.user).get("log", b"")
        return log.decode(errors="replace").strip()[-500:]


@dataclass(frozen=True, slots=True)
class DriverProgram:
    """A driver and the sandbox that it runs in."""

    name: str
    """The noun of the messages, such as ``browser``."""
    spec: SandboxSpec
    command: str
    """The shell command that starts the driver."""
    socket: str
    """The path in the sandbox that the driver listens on."""
    user: int = 0
    """The user of the sandbox that runs the driver; the screen belongs to another, so that it cannot change answers."""
    helpers: tuple[Program, ...] = ()
    """Programs that the driver needs, started after it."""
    encodes: bool = False
    """Whether the driver itself encodes the screenshots, so that no program on the screen can damage them."""


class DriverClient:
    """One driver, for one episode after another; not safe for several threads.

    ``servers`` are programs that run in the sandbox next to the driver.
    """

    def __init__(self, program: DriverProgram, servers: Sequence[Program] = ()) -> None:
        self.program = program
        self.spec = program.spec
        self.servers = servers
        self.sandbox: SandboxLease | None = None
        self._leased_at = 0.0
        self._lost: dict[str, Any] | None = None
        """The answer to a screenshot that found the page lost: the next turn gets it."""

    def open(self, steps: Steps) -> tuple[dict[str, Any], bytes]:
        """Start an episode with these steps, in the present sandbox or, if that fails, in a new one.

        Raises:
            SandboxError: the steps failed in a new sandbox too.
        """
        self._lost = None
        if self.sandbox is not None and not self.expired:
            with contextlib.suppress(SandboxLost, NodeLost):
                answer, png = self._request(steps, OPEN_TIMEOUT_S)
                if "lost" not in answer:
                    return answer, png
        self.renew()
        answer, png = self._request(steps, OPEN_TIMEOUT_S)
        if "lost" in answer:
            failed = f"the {self.program.name} opened no episode in a new sandbox: {answer['lost']}"
            raise SandboxError(f"{failed}{self.details(steps)}")
        return answer, png

    def do(self, steps: Steps) -> tuple[dict[str, Any], bytes]:
        """Continue an episode with these steps; ``lost`` and ``broken`` in the answer report damage.

        Raises:
            SandboxError: the sandbox or its driver failed.
        """
        if self._lost is not None:
            answer, self._lost = self._lost, None
            return answer, b""
        return self._request(steps, STEP_TIMEOUT_S)

    def screenshot(self) -> Png | None:
        """Return the screen as it is now; None without a screenshot.

        If the driver replaces a lost page meanwhile, the steps of the next turn are not executed: its answer is that
        the page was lost, as if those steps had found it so.

        Raises:
            SandboxError: the sandbox or its driver failed.
        """
        answer, png = self.do([{"do": "observe", "tree": False, "screenshot": True, "notes": False}])
        if "lost" in answer:
            self._lost = answer
        return Png(png) if png else None

    def read_files(self, folder: str, user: int = 0) -> dict[str, bytes] | None:
        """Return the files of a folder of the sandbox; None if they cannot be read or the screen is gone.

        Raises:
            SandboxError: the sandbox failed.
        """
        if self.sandbox is None:
            return None
        try:
            return self.sandbox.read(folder, timeout_s=STEP_TIMEOUT_S, user=user)
        except (FileError, SandboxBroken):
            return None

    def extras(self) -> dict[str, Any]:
        """Return the facts of the sandbox, for ``info["extras"]``; empty without a sandbox."""
        if self.sandbox is None:
            return {}
        return {"sandbox": self.sandbox.facts()}

    def close(self) -> None:
        """Release the sandbox."""
        sandbox, self.sandbox = self.sandbox, None
        if sandbox is not None:
            sandbox.release()

    @property
    def expired(self) -> bool:
        """Whether the lease is too old for another episode."""
        return monotonic() - self._leased_at > MAX_LEASE_S / 2

    def renew(self) -> None:
        """Replace the sandbox by a new one with a running driver.

        Raises:
            SandboxError: there is no sandbox, or the driver does not start.
        """
        self.close()
        if not START_SLOTS.acquire(timeout=START_QUEUE_TIMEOUT_S):
            name = self.program.name
            raise SandboxError(f"timed out after {START_QUEUE_TIMEOUT_S:g} s waiting for other {name}s to start")
        try:
            self._start()
        finally:
            START_SLOTS.release()

    def details(self, steps: Steps) -> str:
        """Return what to look at when these steps failed; a subclass adds it to the message."""
        return ""

    def prepare(self, sandbox: SandboxLease) -> None:
        """Set a new sandbox up once its driver answers; a subclass restores the state of the old sandbox here."""

    def _request(self, steps: Steps, timeout_s: float) -> tuple[dict[str, Any], bytes]:
        name = self.program.name
        if self.sandbox is None:
            return {"lost": f"the {name} is closed", "broken": "closed"}, b""
        message = json.dumps({"steps": list(steps), "deadline": timeout_s}).encode()
        try:
            result = self.sandbox.request(
                self.program.socket, message, timeout_s=request_timeout_s(timeout_s), user=self.program.user
            )
        except SandboxBroken as error:
            self.close()
            return {"lost": f"the {name} broke its sandbox: {error}", "broken": str(error)}, b""
        except SandboxError:
            self.close()
            raise
        head, _, png = result.stdout.partition(b"\n")
        try:
            answer = json.loads(head)
        except (ValueError, RecursionError):
            limited = "exceeded the output limit" if result.output_limit_exceeded else "ended"
            reason = "did not answer in time" if result.timed_out else limited
            answer = {"lost": f"the {name} {reason}", "broken": reason}
        if "failed" in answer:
            self.close()
            raise SandboxError(f"the driver of the {name} failed: {answer['failed']}")
        exhausted = result.oom or result.output_limit_exceeded
        if answer.get("fault") == MACHINE and not exhausted:
            details = self.details(steps)
            self.close()
            raise SandboxLost(f"the {name} or its site got no processor time or stopped: {answer['lost']}{details}")
        if "broken" in answer:
            self.close()
            if not (exhausted or answer.get("fault") == PAGE):
                raise SandboxLost(f"the {name} did not restart: {answer['broken']}")
        return answer, png

    def _start(self) -> None:
        program = self.program
        sandbox = lease(self.spec, timeout_s=LEASE_TIMEOUT_S, max_duration_s=MAX_LEASE_S)
        try:
            driver = Program("driver", program.command, program.user)
            for one in (driver, *program.helpers, *self.servers):
                one.start(sandbox)
            until, empty = monotonic() + START_TIMEOUT_S, b'{"steps": [], "deadline": 5}'
            while sandbox.request(program.socket, empty, timeout_s=5, user=program.user).exit_code:
                if monotonic() > until:
                    log = driver.log(sandbox) or "it wrote no output, so the machine may be too busy"
                    raise StartFailed(f"the {program.name} did not start within {START_TIMEOUT_S:g} s: {log}")
                sleep(POLL_INTERVAL_S)
            self.prepare(sandbox)
        except BaseException:
            sandbox.release()
            raise
        self.sandbox, self._leased_at = sandbox, monotonic()
