"""Docker backend: every sandbox is a container with the same hardening.

Each container has no network, a read-only root, and no log on the host's disk. The writable folders are in memory,
with limits on bytes and files. Memory (without swap), cpu, pids and open files are limited. Core dumps and new
privileges are off, and the engine's default seccomp profile applies. The guest agent runs as root of the container with
four capabilities, and its commands run as a user without any.

The host listens on a socket in a folder that the container mounts read-only, and the container connects to it. Nothing
listens inside the container, and ``docker exec`` is never used. When the host closes the connection or dies, the guest
agent exits and the engine removes the container.
"""

import asyncio
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic, time
from typing import Any, TypeVar
from uuid import uuid4

from ..errors import NoEngine, NoImage, StartFailed, classify
from ..images.reference import image_reference
from ..sandbox import Sandbox
from ..spec import SHM_MIB, SandboxSpec
from ..transport.bootstrap import MOUNT, guest_command, prepare_folder
from ..transport.listener import Listener
from .listing import SandboxInfo, describe
from .ownership import LABEL, labels, reap_reason, this_host

SANDBOX_UID = 10001
"""Uid and gid of every command."""
CAPABILITIES = ("SETUID", "SETGID", "KILL", "DAC_OVERRIDE")
ENGINE_TIMEOUT_S = 30.0
"""Timeout of one request to the engine."""
ENGINE_THREADS = 8
START_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_MIN_S = 1.0
"""Time to connect that a start gets even if the engine used up the start timeout."""
CLOSE_TIMEOUT_S = 10.0
ENDING_MAX_S = 120.0
"""Time for which ``reap`` looks for a container that should end by itself; a failed start may create it this late."""

T = TypeVar("T")


class DockerBackend:
    """Starts sandboxes on this machine's Docker engine."""

    name = "docker"

    def __init__(self, run: str = "", *, runtime: str | None = None) -> None:
        """Connect to the engine; ``run`` becomes a label, ``runtime`` is another OCI runtime such as ``runsc``.

        Raises:
            NoEngine: the Docker SDK is missing, or no engine answers.
        """
        self.run = run
        self.runtime = runtime
        self._threads = ThreadPoolExecutor(ENGINE_THREADS, thread_name_prefix="docker")
        self._local = threading.local()
        self._clients: list[Any] = []
        self._removals: list[Future[bool]] = []
        self._ending: dict[str, float] = {}
        """Containers that should end by themselves and since when; ``reap`` removes those that still exist."""
        self._digests: dict[str, str] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="tw-", dir=os.environ.get("TURNWISE_SOCKETS")))
        self.folder.chmod(0o711)
        try:
            self._client().ping()
        except NoEngine:
            self._discard()
            raise
        except Exception as error:
            self._discard()
            raise NoEngine(
                f"no Docker engine answers ({error}): install docker.io and start dockerd, or use the local backend "
                "for tasks you trust"
            ) from error

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Return a new sandbox, ready for commands.

        Raises:
            NoImage: the image does not exist; `turnwise sandbox build` builds turnwise's own.
            StartFailed: the engine refused, or the guest agent did not connect within ``START_TIMEOUT_S``.
        """
        name = f"turnwise-{uuid4().hex[:16]}"
        folder = self.folder / name
        socket = prepare_folder(folder)
        began = monotonic()
        try:
            async with Listener(name, socket) as listener:
                digest = await self._in_thread(lambda: self._create(name, spec, folder))
                left = START_TIMEOUT_S - (monotonic() - began)
                connection = await listener.accept(max(CONNECT_TIMEOUT_MIN_S, left))
        except BaseException as error:
            self._ending[name] = monotonic()
            self._removals = [one for one in self._removals if not one.done()]
            self._removals.append(self._threads.submit(self._remove, name))
            shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, Exception):
                raise
            failed = classify(error, f"starting a sandbox of image {spec.image}")
            raise (failed if isinstance(failed, NoImage) else StartFailed(str(failed))) from error

        async def on_close() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            self._ending[name] = monotonic()

        return Sandbox(name, spec, connection, on_close, digest)

    async def reap(self) -> list[str]:
        """Remove dead, expired and lingering containers, and return their names.

        Dead means that the owner is dead; lingering containers are own ones that should have ended by themselves.

        Raises:
            SandboxError: the engine does not answer.
        """
        try:
            return await self._in_thread(self._reap)
        except Exception as error:
            raise classify(error, "reaping sandboxes") from error

    async def list_sandboxes(self) -> list[SandboxInfo]:
        """Return every sandbox on this engine, of every owner. Raises SandboxError."""
        try:
            return await self._in_thread(self._list)
        except Exception as error:
            raise classify(error, "listing sandboxes") from error

    async def close(self) -> None:
        """Release the engine; open sandboxes end when their connections close."""
        # Removals after failed starts may still be running. A frozen engine delays the close by the timeout only.
        if running := [asyncio.wrap_future(one) for one in self._removals if not one.done()]:
            await asyncio.wait(running, timeout=CLOSE_TIMEOUT_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            client.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _discard(self) -> None:
        self._threads.shutdown(wait=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _client(self) -> Any:
        """Return this thread's connection to the engine."""
        try:
            import docker
        except ImportError as error:
            raise NoEngine('the Docker SDK is not installed: pip install "turnwise[sandbox]"') from error
        if not hasattr(self._local, "client"):
            settings = docker.utils.kwargs_from_env()
            self._local.client = docker.APIClient(timeout=ENGINE_TIMEOUT_S, **settings)
            self._clients.append(self._local.client)
        return self._local.client

    def _digest(self, image: str) -> str:
        if image not in self._digests:
            self._digests[image] = str(self._client().inspect_image(image)["Id"])
        return self._digests[image]

    def _create(self, name: str, spec: SandboxSpec, folder: Path) -> str:
        client = self._client()
        image = image_reference(spec.image)
        digest = self._digest(image)
        writable = f"nr_inodes={spec.inodes},nosuid,nodev,exec"
        host = client.create_host_config(
            auto_remove=True,
            cap_add=list(CAPABILITIES),
            cap_drop=["ALL"],
            init=True,
            ipc_mode="private",
            log_config={"type": "none"},
            mem_limit=spec.memory_mib << 20,
            memswap_limit=spec.memory_mib << 20,
            # Instead of ``binds``, whose missing source folders the engine would create.
            mounts=[{"Type": "bind", "Source": str(folder), "Target": MOUNT, "ReadOnly": True}],
            nano_cpus=int(spec.cpus * 1e9),
            network_mode="none",
            pids_limit=spec.pids,
            read_only=True,
            runtime=self.runtime,
            security_opt=["no-new-privileges:true"],
            tmpfs={
                "/workspace": f"size={spec.disk_mib}m,mode=0755,uid={SANDBOX_UID},gid={SANDBOX_UID},{writable}",
                "/tmp": f"size={spec.disk_mib}m,mode=1777,{writable}",  # noqa: S108
                "/dev/shm": f"size={SHM_MIB}m,mode=1777,{writable}",  # noqa: S108
            },
            ulimits=[
                {"Name": "nofile", "Soft": 1024, "Hard": 4096},
                {"Name": "core", "Soft": 0, "Hard": 0},
            ],
        )
        client.create_container(
            digest,
            entrypoint=guest_command("python3", str(SANDBOX_UID), spec.ttl_s),
            command=[],
            environment={},
            host_config=host,
            hostname="sandbox",
            labels=labels(self.run, spec.ttl_s),
            name=name,
            user="0:0",
            working_dir="/",
        )
        client.start(name)
        return digest

    def _remove(self, name: str) -> bool:
        """Remove one container; return whether this call removed it."""
        import docker.errors

        try:
            self._client().remove_container(name, force=True, v=True)
        except docker.errors.NotFound:
            return False
        except docker.errors.APIError as error:
            # 409: the engine is already removing the container.
            if error.status_code != 409:
                raise
            return False
        return True

    def _list(self) -> list[SandboxInfo]:
        host, now = this_host(), time()
        found = self._client().containers(all=True, filters={"label": f"{LABEL}=1"})
        return [
            describe(
                one["Names"][0].lstrip("/"),
                one["State"],
                one["Image"],
                one["Labels"],
                reap_reason(one["Labels"], now, host),
            )
            for one in found
        ]

    def _reap(self) -> list[str]:
        found = self._list()
        names = {one.id for one in found}
        doomed = [one.id for one in found if one.reap_reason]
        doomed += [name for name in self._ending if name in names and name not in doomed]
        removed = [name for name in doomed if self._remove(name)]
        now = monotonic()
        self._ending = {name: since for name, since in self._ending.items() if now - since < ENDING_MAX_S}
        return removed
