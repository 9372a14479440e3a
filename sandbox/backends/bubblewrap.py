"""Bubblewrap backend, called ``local``: sandboxes for trusted tasks on machines without Docker.

Each sandbox has its own user, mount, pid, ipc, network, uts and cgroup namespaces. It sees the machine's ``/usr``
read-only; its writable folders are in memory, with limits on bytes. Processes, open files and the address space of each
process are limited. A sandbox dies with the process that started it. If that process is root, each sandbox runs as a
user of the machine that no other live sandbox has.

The system call filter is that of containers (``seccomp``), compiled by libseccomp. Not contained, because there is no
control group: the memory of all processes together, cpu time, and the number of files. There are no images: a sandbox
sees the programs of this machine. Specs that are not ``trusted`` are therefore refused by default.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self
from uuid import uuid4

from pydantic import BaseModel, ConfigDict

from ..errors import NoEngine, NoImage, NotTrusted, StartFailed
from ..images.reference import recipe, registered
from ..sandbox import Sandbox
from ..spec import SHM_MIB, SandboxSpec
from ..transport.connection import GuestConnection
from ..transport.listener import MOUNT, UnixListener, guest_command, make_sockets_folder, prepare_folder
from .ownership import SandboxInfo, describe
from .protocol import Capabilities, Containment, Prerequisite
from .seccomp import LIBRARY, PACKAGE, compile_profile, load_library, open_program, profile
from .user_ids import UidLock

SANDBOX_UID = "10001"
"""Uid and gid of every process, inside the sandbox."""
START_TIMEOUT_S = 20.0
EXIT_TIMEOUT_S = 5.0
"""Time for a sandbox to exit after its connection was closed, before it is killed."""
OPEN_FILES_MAX = 1024
CHECK_TIMEOUT_S = 10.0
"""Timeout of each program that ``prerequisites`` runs."""
READ_ONLY_PATHS = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs", "/etc/localtime")
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class BubblewrapOptions(BaseModel):
    """Settings of the local backend: none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BubblewrapBackend:
    """Starts sandboxes as children of this process."""

    name = "local"
    capabilities = Capabilities(
        frozenset({Containment.NETWORK, Containment.SYSTEM_CALLS}), untrusted=False, images=False, transport="unix"
    )
    Options = BubblewrapOptions

    @classmethod
    def create(cls, run: str, options: BubblewrapOptions, *, allow_untrusted: bool) -> Self:
        """Return a backend as ``protocol.BackendClass.create`` does."""
        return cls(allow_untrusted=allow_untrusted)

    @classmethod
    def prerequisites(cls) -> list[Prerequisite]:
        """Return the program, its namespaces, Python and libseccomp."""
        program = shutil.which("bwrap")
        if program is None:
            return [Prerequisite("local", "bubblewrap", False, "apt-get install bubblewrap")]
        version = _last_line(program, "--version")
        trial = (program, "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")
        error = _last_line(*trial)
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        return [
            Prerequisite("local", "bubblewrap", True, version),
            Prerequisite("local", "namespaces", not error, error or "as root" * (os.geteuid() == 0) or "as this user"),
            Prerequisite("local", "python3", python is not None, python or "apt-get install python3"),
            _libseccomp(),
        ]

    @classmethod
    def build_image(cls, name: str, report: Callable[[str], None], *, base: str | None, again: bool) -> str:
        """Refuse. Raises NoImage."""
        raise NoImage("the local backend has no images: its sandboxes use the programs of this machine")

    def __init__(self, *, allow_untrusted: bool = False, docker_error: str = "") -> None:
        """Find the programs; ``docker_error`` is the reason why Docker, the preferred backend, is not available.

        Raises:
            NoEngine: bubblewrap, Python or libseccomp is missing.
        """
        program, python = shutil.which("bwrap"), shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if program is None or python is None:
            missing = "bubblewrap" if program is None else "python3"
            raise NoEngine(f"local sandboxes need {missing}: apt-get install {missing}")
        self._filter = compile_profile(profile(shared_user=True))
        self.program = program
        self.python = python
        self.allow_untrusted = allow_untrusted
        self.docker_error = docker_error
        self._exits: set[asyncio.Task[None]] = set()
        self._open: set[str] = set()
        self.folder = make_sockets_folder()

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox, ready for commands.

        Raises:
            NoImage: the spec needs the programs of an image.
            NotTrusted: the spec is not ``trusted`` and untrusted specs are not allowed.
            StartFailed: bubblewrap failed; the text ends with its last line.
        """
        no_docker = f"{self.docker_error}; " if self.docker_error else ""
        if spec.image in registered() and recipe(spec.image).programs:
            raise NoImage(
                f"{no_docker}the local backend has no images, and this task runs programs of the image `{spec.image}`: "
                "use Docker"
            )
        if not (spec.trusted or self.allow_untrusted):
            raise NotTrusted(
                f"{no_docker}the local backend does not contain hostile code, and this task is not declared trusted: "
                "use Docker, or run it in the local backend anyway by `--allow-local-sandbox` of `turnwise train`, or "
                "by `--sandbox allow_local_sandbox=true` of another command"
            )
        name = f"turnwise-{uuid4().hex[:16]}"
        folder = self.folder / name
        socket = prepare_folder(folder)
        process = None
        uid = UidLock() if os.geteuid() == 0 else None
        program = open_program(self._filter)
        try:
            async with UnixListener(name, socket) as listener:
                socket.chmod(0o666)
                starting = asyncio.create_task(
                    asyncio.create_subprocess_exec(
                        *_change_user(uid),
                        *self._command(folder, spec, program),
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=asyncio.subprocess.DEVNULL,
                        stderr=asyncio.subprocess.PIPE,
                        env={"PATH": os.defpath},
                        start_new_session=True,
                        pass_fds=(program,),
                    )
                )
                try:
                    process = await asyncio.shield(starting)
                except asyncio.CancelledError:
                    # asyncio itself would kill the first process only, and wait for the others without end.
                    process = await starting
                    raise
                connection = await _accept(listener, process)
        except (OSError, EOFError, TimeoutError) as error:
            last_line = await _kill(process) if process else ""
            _release(uid)
            shutil.rmtree(folder, ignore_errors=True)
            reason = last_line or error or "the guest agent did not connect"
            raise StartFailed(f"bubblewrap could not start a sandbox: {reason}") from error
        except BaseException:
            if process:
                _kill_group(process)
                self._await_exit(process, uid)
            else:
                _release(uid)
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            os.close(program)
        self._open.add(name)

        async def on_close() -> None:
            self._open.discard(name)
            shutil.rmtree(folder, ignore_errors=True)
            self._await_exit(process, uid)

        return Sandbox(name, spec, connection, on_close)

    async def reap(self) -> list[str]:
        """Return an empty list: a sandbox dies with its owner, so none is ever left to remove."""
        return []

    async def list_sandboxes(self) -> list[SandboxInfo]:
        """Return the sandboxes of this process; those of other processes cannot be found."""
        return [describe(name, "running", "", {}, "") for name in sorted(self._open)]

    async def close(self) -> None:
        """Wait for closed sandboxes to exit."""
        await asyncio.gather(*self._exits, return_exceptions=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _await_exit(self, process: asyncio.subprocess.Process, uid: UidLock | None) -> None:
        task = asyncio.create_task(_wait_or_kill(process, uid))
        self._exits.add(task)
        task.add_done_callback(self._exits.discard)

    def _command(self, folder: Path, spec: SandboxSpec, program: int) -> list[str]:
        def memory(mib: int, path: str) -> list[str]:
            return ["--size", str(mib << 20), "--tmpfs", path]

        limits = {
            "NPROC": spec.pids,
            "AS": spec.memory_mib << 20,
            "NOFILE": OPEN_FILES_MAX,
            "CORE": 0,
            "FSIZE": spec.disk_mib << 20,
        }
        visible = [part for path in READ_ONLY_PATHS if Path(path).exists() for part in ("--ro-bind", path, path)]
        for name in SYSTEM_FOLDERS:
            path = Path("/") / name
            if path.is_symlink():
                visible += ["--symlink", os.readlink(path), f"/{name}"]  # noqa: PTH115 - the link as written
            elif path.is_dir():
                visible += ["--ro-bind", f"/{name}", f"/{name}"]
        return [
            *(self.program, "--unshare-all", "--as-pid-1", "--die-with-parent"),
            *("--cap-drop", "ALL", "--hostname", "sandbox", "--seccomp", str(program)),
            *("--uid", SANDBOX_UID, "--gid", SANDBOX_UID, "--ro-bind", "/usr", "/usr", *visible),
            *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev", "--mqueue", "/dev/mqueue"),
            *("--remount-ro", "/dev"),
            *memory(SHM_MIB, "/dev/shm"),  # noqa: S108
            *memory(spec.disk_mib, "/tmp"),  # noqa: S108
            *memory(spec.disk_mib, "/workspace"),
            *("--ro-bind", str(folder), MOUNT, "--chdir", "/workspace", "--remount-ro", "/"),
            *guest_command(self.python, "-", spec.ttl_s, json.dumps(limits)),
        ]


def _change_user(lock: UidLock | None) -> list[str]:
    """Return the prefix that runs bubblewrap with this uid; empty for the user of this process."""
    if lock is None:
        return []
    # A program instead of the ``user`` argument of subprocess, which Ray's event loop does not support.
    return ["setpriv", f"--reuid={lock.uid}", f"--regid={lock.uid}", "--clear-groups", "--"]


def _release(lock: UidLock | None) -> None:
    if lock is not None:
        lock.release()


async def _accept(listener: UnixListener, process: asyncio.subprocess.Process) -> GuestConnection:
    """Return the connection of a starting sandbox; raise EOFError if its process exits first."""
    accepting = asyncio.create_task(listener.accept(START_TIMEOUT_S))
    exiting = asyncio.create_task(process.wait())
    try:
        await asyncio.wait((accepting, exiting), return_when=asyncio.FIRST_COMPLETED)
        if not accepting.done():
            raise EOFError("the process exited")
        return accepting.result()
    finally:
        accepting.cancel()
        exiting.cancel()


async def _kill(process: asyncio.subprocess.Process) -> str:
    """Kill a process whose start failed and return the last line that it wrote to stderr."""
    _kill_group(process)
    _, stderr = await process.communicate()
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


async def _wait_or_kill(process: asyncio.subprocess.Process, uid: UidLock | None) -> None:
    """Wait for a sandbox whose connection is closed, then free its uid; kill it after ``EXIT_TIMEOUT_S``.

    The sandbox has ended with its stderr, which its last process closes, maybe after the process of bubblewrap.
    """
    for _ in range(2):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_TIMEOUT_S):
                await process.communicate()
                break
        _kill_group(process)
    _release(uid)


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill every process of bubblewrap: without the first one, another could wait for it without end."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _libseccomp() -> Prerequisite:
    try:
        load_library()
    except NoEngine:
        return Prerequisite("local", "libseccomp", False, f"apt-get install {PACKAGE}")
    return Prerequisite("local", "libseccomp", True, LIBRARY)


def _last_line(*command: str) -> str:
    """Return the last line that a program prints; empty if it prints none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[-1] if lines else ""
