"""Sandboxes by bubblewrap: for tasks that are trusted, where there is no Docker.

New user, mount, pid, ipc, network, uts and cgroup namespaces; the machine's ``/usr`` read-only; the places to write
are in memory, bounded in bytes; limits on processes, open files and the address space of each process; the box dies
with the process that started it. Run by root, each box is a user of the machine of its own.

What it does **not** contain: the memory of all processes together and cpu time (there is no control group) and the
number of files; and the kernel's whole interface is open to it, without Docker's filter of system calls. Nor is there
an image: a box sees this machine's programs. So a spec that is not ``trusted`` is refused unless the person said
otherwise.
"""

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..errors import NoEngine, NotTrusted, StartFailed
from ..sandbox import Box
from ..spec import SHM_MIB, SandboxSpec
from ..transport.bootstrap import INSIDE, command, prepare
from ..transport.connection import GuestConnection, Listener

PAYLOAD = "10001"
START_SECONDS = 20.0
END_SECONDS = 5.0
FIRST_UID = 1_900_000_000
"""Where the users of boxes begin on the machine, run by root: far from any account or usual range of sub-uids."""
UIDS = 60_000
SHOWN = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs", "/etc/localtime")
LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class LocalBackend:
    """Starts sandboxes as children of this process."""

    name = "local"

    def __init__(self, run: str = "", *, allow_untrusted: bool = False, instead: str = "") -> None:
        """``run`` names the folder of sockets, for a person; ``instead`` says why there is no Docker, where that was
        wanted first.

        Raises:
            NoEngine: bubblewrap or Python is missing.
        """
        program, python = shutil.which("bwrap"), shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if program is None or python is None:
            missing = "bubblewrap" if program is None else "python3"
            raise NoEngine(f"local sandboxes need {missing}: apt-get install {missing}")
        self.program = program
        self.python = python
        self.allow_untrusted = allow_untrusted
        self.instead = instead
        self._next = os.getpid() % UIDS
        self._ending: set[asyncio.Task[None]] = set()
        self._open: dict[str, SandboxSpec] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="tw-", dir=os.environ.get("TURNWISE_SOCKETS")))
        self.folder.chmod(0o711)

    async def start(self, spec: SandboxSpec) -> Box:
        """A new sandbox, ready for commands.

        Raises:
            NotTrusted: the spec does not say that what runs in it is trusted.
            StartFailed: bubblewrap could not make it; its words are in the text.
        """
        if not (spec.trusted or self.allow_untrusted):
            raise NotTrusted(
                f"{self.instead}{'; ' if self.instead else ''}the local backend does not contain hostile code, and "
                "this task is not declared trusted: use Docker (`turnwise train --allow-local-sandbox` does without)"
            )
        name = f"turnwise-{uuid4().hex[:16]}"
        inside = self.folder / name
        socket = prepare(inside)
        process = None
        try:
            async with Listener(name, socket) as listener:
                socket.chmod(0o666)
                process = await asyncio.create_subprocess_exec(
                    *self._user(),
                    *self._command(inside, spec),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    env={"PATH": os.defpath},
                    start_new_session=True,
                )
                link = await _linked(listener, process)
        except (OSError, EOFError, TimeoutError) as error:
            said = await _killed(process) if process else ""
            shutil.rmtree(inside, ignore_errors=True)
            raise StartFailed(f"bubblewrap could not start a sandbox: {said or error or 'no answer'}") from error
        except BaseException:
            if process:
                process.kill()
                self._await_end(process)
            shutil.rmtree(inside, ignore_errors=True)
            raise
        self._open[name] = spec

        async def ended() -> None:
            self._open.pop(name, None)
            shutil.rmtree(inside, ignore_errors=True)
            self._await_end(process)

        return Box(name, spec, link, ended)

    async def sweep(self) -> list[str]:
        """Nothing is ever left: a box dies with its owner."""
        return []

    async def listed(self) -> list[dict[str, Any]]:
        """The boxes of this process: no other's can be seen."""
        return [{"id": name, "status": "running", "image": "", "labels": {}, "dead": ""} for name in sorted(self._open)]

    async def close(self) -> None:
        """Wait for boxes that are ending."""
        await asyncio.gather(*self._ending, return_exceptions=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_end(self, process: asyncio.subprocess.Process) -> None:
        task = asyncio.create_task(_end(process))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _user(self) -> list[str]:
        """What runs bubblewrap as a user of the box's own, where this process may choose."""
        if os.geteuid() != 0:
            return []
        self._next = (self._next + 1) % UIDS
        number = str(FIRST_UID + self._next)
        # Not by the arguments of the subprocess: Ray's event loop takes none of them.
        return ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--"]

    def _command(self, inside: Path, spec: SandboxSpec) -> list[str]:
        def memory(mib: int, path: str) -> list[str]:
            return ["--size", str(mib << 20), "--tmpfs", path]

        limits = {
            "NPROC": spec.pids,
            "AS": spec.memory_mib << 20,
            "NOFILE": 1024,
            "CORE": 0,
            "FSIZE": spec.disk_mib << 20,
        }
        shown = [part for path in SHOWN if Path(path).exists() for part in ("--ro-bind", path, path)]
        for name in LINKS:
            path = Path("/") / name
            if path.is_symlink():
                shown += ["--symlink", os.readlink(path), f"/{name}"]  # noqa: PTH115 - as it is written
            elif path.is_dir():
                shown += ["--ro-bind", f"/{name}", f"/{name}"]
        return [
            *(
                self.program,
                "--unshare-all",
                "--as-pid-1",
                "--die-with-parent",
                "--cap-drop",
                "ALL",
                "--hostname",
                "sandbox",
            ),
            *("--uid", PAYLOAD, "--gid", PAYLOAD, "--ro-bind", "/usr", "/usr", *shown),
            *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev", "--mqueue", "/dev/mqueue"),
            *("--remount-ro", "/dev"),
            *memory(SHM_MIB, "/dev/shm"),  # noqa: S108
            *memory(spec.disk_mib, "/tmp"),  # noqa: S108
            *memory(spec.disk_mib, "/workspace"),
            *("--ro-bind", str(inside), INSIDE, "--chdir", "/workspace", "--remount-ro", "/"),
            *command(self.python, "-", spec.ttl, json.dumps(limits)),
        ]


async def _linked(listener: Listener, process: asyncio.subprocess.Process) -> GuestConnection:
    """The link of a process, unless it ends first. Raises as ``Listener.link``."""
    linking = asyncio.create_task(listener.link(START_SECONDS))
    ending = asyncio.create_task(process.wait())
    try:
        await asyncio.wait((linking, ending), return_when=asyncio.FIRST_COMPLETED)
        if not linking.done():
            raise EOFError("it ended")
        return linking.result()
    finally:
        linking.cancel()
        ending.cancel()


async def _killed(process: asyncio.subprocess.Process) -> str:
    """End a process that went wrong; the last line it wrote on stderr."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    _, said = await process.communicate()
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


async def _end(process: asyncio.subprocess.Process) -> None:
    """Its link is closed, so it ends by itself; or it is killed."""
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
