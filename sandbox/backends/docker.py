"""Sandboxes as Docker containers, every one hardened the same way.

No network; a read-only root; the only places to write are in memory, bounded in bytes and files; limits on memory
(without swap), cpu, pids, open files; no core dumps, no log on the host's disk; no new privileges; the engine's default
seccomp profile. The step server is the container's root with four capabilities, what it runs is a plain user with none.
The host listens on a socket in a folder mounted read-only and the container dials out, so that nothing listens inside
and ``docker exec`` is never used. When the host hangs up, or dies, the step server ends and the engine removes the
container.
"""

import asyncio
import os
import shutil
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic, time
from typing import Any, TypeVar
from uuid import uuid4

from ..errors import NoEngine, NoImage, StartFailed, classify
from ..sandbox import Box
from ..spec import SHM_MIB, SandboxSpec
from ..transport.bootstrap import INSIDE, command, prepare
from ..transport.connection import Listener
from .ownership import MARK, labels, this_host, why_dead

PAYLOAD = 10001
"""Uid and gid of everything a sandbox is asked to run."""
CAPABILITIES = ("SETUID", "SETGID", "KILL", "DAC_OVERRIDE")
ENGINE_SECONDS = 30.0
"""How long any answer of the engine may take."""
START_SECONDS = 60.0
CLOSE_SECONDS = 10.0
LATE_SECONDS = 120.0
"""How long after a start was given up its container may still appear."""
OWN_IMAGES = ("code", "web", "gui")

T = TypeVar("T")


def reference(image: str) -> str:
    """The engine's name of an image; turnwise's own have short ones."""
    return f"turnwise/{image}:latest" if image in OWN_IMAGES else image


class DockerBackend:
    """Starts sandboxes on this machine's Docker engine."""

    name = "docker"

    def __init__(self, run: str = "", *, runtime: str | None = None) -> None:
        """``run`` is written on every container; ``runtime`` is another OCI runtime of the engine, such as ``runsc``.

        Raises:
            NoEngine: the Docker SDK is missing, or no engine answers.
        """
        self.run = run
        self.runtime = runtime
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="docker")
        self._local = threading.local()
        self._clients: list[Any] = []
        self._removing: list[Future[bool]] = []
        self._late: dict[str, float] = {}
        self._digests: dict[str, str] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="tw-", dir=os.environ.get("TURNWISE_SOCKETS")))
        self.folder.chmod(0o711)
        try:
            self._client().ping()
        except NoEngine:
            self._drop()
            raise
        except Exception as error:
            self._drop()
            raise NoEngine(
                f"no Docker engine answers ({error}): install docker.io and start dockerd, or use the local backend "
                "for tasks you trust"
            ) from error

    async def start(self, spec: SandboxSpec) -> Box:
        """A new sandbox, ready for commands.

        Raises:
            NoImage: ``turnwise sandbox build`` was not run, or there is no such image.
            StartFailed: the engine refused, or did not do it within ``START_SECONDS``.
        """
        name = f"turnwise-{uuid4().hex[:16]}"
        inside = self.folder / name
        socket = prepare(inside)
        what = f"starting a sandbox of image {spec.image}"
        began = monotonic()
        try:
            async with Listener(name, socket) as listener:
                digest = await self._call(lambda: self._create(name, spec, inside))
                link = await listener.link(max(1.0, START_SECONDS - (monotonic() - began)))
        except BaseException as error:
            self._late[name] = monotonic()
            self._removing = [one for one in self._removing if not one.done()]
            self._removing.append(self._threads.submit(self._remove, name))
            shutil.rmtree(inside, ignore_errors=True)
            if not isinstance(error, Exception):
                raise
            failed = classify(error, what)
            raise (failed if isinstance(failed, NoImage) else StartFailed(str(failed))) from error

        async def ended() -> None:
            shutil.rmtree(inside, ignore_errors=True)
            self._late[name] = monotonic()

        return Box(name, spec, link, ended, digest)

    async def sweep(self) -> list[str]:
        """Remove what should be gone: containers whose owner is dead or whose time is over, and late or lingering ones
        of our own. Gives the names removed. Raises SandboxError where the engine does not answer.
        """
        try:
            removed: list[str] = await self._call(self._sweep)
            return removed
        except Exception as error:
            raise classify(error, "sweeping sandboxes") from error

    async def listed(self) -> list[dict[str, Any]]:
        """Every container of turnwise on this engine, with its labels and why it might be removed."""
        try:
            found: list[dict[str, Any]] = await self._call(self._listed)
            return found
        except Exception as error:
            raise classify(error, "listing sandboxes") from error

    async def close(self) -> None:
        """Forget the engine; boxes that are still open end when their links do."""
        # What was given up half-way is still being removed; a frozen engine is not waited for.
        if removing := [asyncio.wrap_future(one) for one in self._removing if not one.done()]:
            await asyncio.wait(removing, timeout=CLOSE_SECONDS)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            client.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _call(self, work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _drop(self) -> None:
        self._threads.shutdown(wait=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _client(self) -> Any:
        """This thread's connection to the engine."""
        try:
            import docker
        except ImportError as error:
            raise NoEngine('the Docker SDK is not installed: pip install "turnwise[sandbox]"') from error
        if not hasattr(self._local, "client"):
            settings = docker.utils.kwargs_from_env()
            self._local.client = docker.APIClient(timeout=ENGINE_SECONDS, **settings)
            self._clients.append(self._local.client)
        return self._local.client

    def _digest(self, image: str) -> str:
        if image not in self._digests:
            self._digests[image] = str(self._client().inspect_image(image)["Id"])
        return self._digests[image]

    def _create(self, name: str, spec: SandboxSpec, inside: Path) -> str:
        client = self._client()
        image = reference(spec.image)
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
            # Not ``binds``: of those the engine makes what is no longer there.
            mounts=[{"Type": "bind", "Source": str(inside), "Target": INSIDE, "ReadOnly": True}],
            nano_cpus=int(spec.cpus * 1e9),
            network_mode="none",
            pids_limit=spec.pids,
            read_only=True,
            runtime=self.runtime,
            security_opt=["no-new-privileges:true"],
            tmpfs={
                "/workspace": f"size={spec.disk_mib}m,mode=0755,uid={PAYLOAD},gid={PAYLOAD},{writable}",
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
            entrypoint=command("python3", str(PAYLOAD), spec.ttl),
            command=[],
            environment={},
            host_config=host,
            hostname="sandbox",
            labels=labels(self.run, spec.ttl),
            name=name,
            user="0:0",
            working_dir="/",
        )
        client.start(name)
        return digest

    def _remove(self, name: str) -> bool:
        """Remove one container; whether there was one."""
        import docker.errors

        try:
            self._client().remove_container(name, force=True, v=True)
        except docker.errors.NotFound:
            return False
        except docker.errors.APIError as error:
            # 409: the engine is removing it already.
            if error.status_code != 409:
                raise
            return False
        return True

    def _listed(self) -> list[dict[str, Any]]:
        host, now = this_host(), time()
        found = self._client().containers(all=True, filters={"label": f"{MARK}=1"})
        return [
            {
                "id": one["Names"][0].lstrip("/"),
                "status": one["State"],
                "image": one["Image"],
                "labels": one["Labels"],
                "dead": why_dead(one["Labels"], now, host),
            }
            for one in found
        ]

    def _sweep(self) -> list[str]:
        found = self._listed()
        names = {one["id"] for one in found}
        doomed = [one["id"] for one in found if one["dead"]]
        doomed += [name for name in self._late if name in names and name not in doomed]
        removed = [name for name in doomed if self._remove(name)]
        self._late = {name: since for name, since in self._late.items() if monotonic() - since < LATE_SECONDS}
        return removed
