"""Docker backend: every sandbox is a container with the same hardening.

Each container has no network, a read-only root, and no log on the host's disk. The writable folders are in memory,
with limits on bytes and files. Memory (without swap), socket buffers, cpu, pids, open files and pseudo-terminals are
limited. Core dumps and new privileges are off, and turnwise's own seccomp profile applies (``seccomp``). The guest
agent runs as root of the container with five capabilities, and its commands run as users without any. No other live
sandbox of the machine has the uids of these users.

The host listens on a socket in a folder that the container mounts read-only, and the container connects to it. Nothing
listens inside the container, and ``docker exec`` is never used. When the host closes the connection or dies, the guest
agent exits and the engine removes the container.
"""

import asyncio
import contextlib
import logging
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from time import monotonic, time
from typing import Any, Self, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from ...base.logs import log_errors
from ...errors import suggestion
from ..errors import NoEngine, NoImage, StartFailed, classify
from ..images.build import build, engine_client
from ..images.reference import image_reference, registered
from ..sandbox import Sandbox
from ..spec import SandboxSpec
from ..transport.connection import GuestConnection
from ..transport.listener import UnixListener, guest_command, make_sockets_folder, prepare_folder
from .container import host_options, limit_socket_memory
from .ownership import LABEL, UID, SandboxInfo, describe, labels, reap_reason, this_host
from .protocol import Capabilities, Containment, Prerequisite, UnknownBackend
from .user_ids import CONTAINER_UIDS, REMAPPED_CONTAINER_UIDS

LOG = logging.getLogger(__name__)

ENGINE_TIMEOUT_S = 30.0
"""Timeout of one request to the engine."""
CHECK_TIMEOUT_S = 10.0
"""The same for the checks of ``prerequisites``."""
ENGINE_THREADS = 8
START_TIMEOUT_S = 60.0
EXIT_POLL_INTERVAL_S = 0.5
"""Seconds between two checks whether a starting container has ended."""
UID_DRAWS_MAX = 8
"""Draws of uids for one sandbox, of which each finds those of another live sandbox with a chance of one in millions."""
NOT_FOUND = "executable file not found"
"""Text of the engine's error if an image lacks the program that a container starts with."""
NO_PYTHON = (
    "its container ended before the guest agent connected: the image needs `python3` of version 3.9 or newer, for the "
    "architecture of this machine"
)
CLOSE_TIMEOUT_S = 10.0
EVENTS_TIMEOUT_S = 2.0
"""Time for which the engine is asked how a container ended; each question takes up to a second."""
ENDING_MAX_S = 120.0
"""Time for which ``reap`` looks for a container that should end by itself; a failed start may create it this late."""

T = TypeVar("T")


class DockerOptions(BaseModel):
    """Settings of the Docker backend."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runtime: str | None = Field(None, min_length=1)
    """Another OCI runtime of the engine, such as ``runsc``."""


class DockerBackend:
    """Starts sandboxes on this machine's Docker engine."""

    name = "docker"
    capabilities = Capabilities(frozenset(Containment), untrusted=True, images=True, transport="unix")
    Options = DockerOptions

    @classmethod
    def create(cls, run: str, options: DockerOptions, *, allow_untrusted: bool) -> Self:
        """Return a backend as ``protocol.BackendClass.create`` does."""
        return cls(run, runtime=options.runtime)

    @classmethod
    def prerequisites(cls) -> list[Prerequisite]:
        """Return the SDK, the engine, its runtimes and the images."""

        def part(name: str, found: bool, detail: str, required: bool = False) -> Prerequisite:
            return Prerequisite("docker", name, found, detail, required)

        try:
            import docker
        except ImportError:
            return [part("SDK", False, 'pip install "turnwise[sandbox]"', True)]
        parts = [part("SDK", True, docker.__version__, True)]
        try:
            client = engine_client(CHECK_TIMEOUT_S)
            with contextlib.closing(client):
                info = client.info()
                version = f"{info['ServerVersion']}, cgroup v{info.get('CgroupVersion', 1)}"
                parts.append(part("engine", True, version, True))
                runtimes = sorted(info.get("Runtimes") or {})
                gvisor = "runsc" in runtimes
                parts.append(part("runtimes", True, ", ".join(runtimes)))
                install_gvisor = "optional: install runsc and add it to the runtimes of dockerd"
                parts.append(part("gVisor", gvisor, "runsc" if gvisor else install_gvisor))
                images = [part(f"image {name}", *_image(client, image_reference(name))) for name in registered()]
                return parts + images
        except Exception as error:
            LOG.info("the Docker engine does not answer", exc_info=True)
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return [*parts, part("engine", False, f"install docker.io and start dockerd ({lines[0]})", True)]

    @classmethod
    def build_image(cls, name: str, report: Callable[[str], None], *, base: str | None, again: bool) -> str:
        """Build a shipped image on the engine as ``images.build.build`` does."""
        return build(name, report, base=base, again=again)

    def __init__(self, run: str = "", *, runtime: str | None = None) -> None:
        """Connect to the engine; ``run`` becomes a label, ``runtime`` is another OCI runtime such as ``runsc``.

        Raises:
            NoEngine: the Docker SDK is missing, or no engine answers.
            UnknownBackend: the engine does not have the runtime.
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
        self._engine_options: list[str] | None = None
        self.folder = make_sockets_folder()
        try:
            self._client().ping()
            self._gvisor = self._check_runtime()
        except (NoEngine, UnknownBackend):
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
            StartFailed: the engine refused, or the sandbox was not ready within ``START_TIMEOUT_S``.
        """
        name = f"turnwise-{uuid4().hex[:16]}"
        folder = self.folder / name
        socket = prepare_folder(folder)
        try:
            async with asyncio.timeout(START_TIMEOUT_S), UnixListener(name, socket) as listener:
                digest = await self._in_thread(lambda: self._create(name, spec, folder))
                connection = await self._accept(name, listener)
                began = time()
                connection.inquire = lambda: self._in_thread(lambda: self._ended_by_memory(name, began))
        except BaseException as error:
            self._ending[name] = monotonic()
            self._remove_later(name)
            shutil.rmtree(folder, ignore_errors=True)
            if not isinstance(error, Exception):
                raise
            failed = classify(error, f"starting a sandbox of image {spec.image}")
            raise (failed if isinstance(failed, NoImage) else StartFailed(str(failed))) from error

        async def on_close() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            self._ending[name] = monotonic()

        return Sandbox(name, spec, connection, on_close, digest)

    async def _accept(self, name: str, listener: UnixListener) -> GuestConnection:
        """Return the connection of a starting container. Raises StartFailed once the container has ended instead."""
        while True:
            with contextlib.suppress(TimeoutError):
                return await listener.accept(EXIT_POLL_INTERVAL_S)
            if not await self._in_thread(lambda: self._is_running(name)):
                raise StartFailed(NO_PYTHON)

    def _ended_by_memory(self, name: str, began: float) -> bool:
        """Return whether a container ended because its processes exceeded its memory, by the events of the engine.

        The kernel may kill process 1 of the container before it reports anything. An end by a request to the engine has
        an event ``kill``. If the engine does not answer, nothing is known against the sandbox.
        """
        seen = set[str]()
        with log_errors(LOG, "the engine does not answer how a sandbox ended", sandbox=name):
            until = time() + EVENTS_TIMEOUT_S
            while time() < until and "die" not in seen:
                filters = {"container": name, "type": "container"}
                events = self._client().events(since=int(began), until=int(time()) + 1, filters=filters, decode=True)
                seen |= {str(event["Action"]) for event in events}
        return {"die", "oom"} <= seen and "kill" not in seen

    def _is_running(self, name: str) -> bool:
        """Return whether the engine still has a container and runs it."""
        import docker.errors

        try:
            return bool(self._client().inspect_container(name)["State"]["Running"])
        except docker.errors.NotFound:
            return False

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
        if running := [asyncio.wrap_future(removal) for removal in self._removals if not removal.done()]:
            await asyncio.wait(running, timeout=CLOSE_TIMEOUT_S)
        self._threads.shutdown(wait=False, cancel_futures=True)
        for client in self._clients:
            client.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_later(self, name: str) -> None:
        """Remove a container in a thread; at the end of the program, when no thread takes work any more, at once."""
        self._removals = [removal for removal in self._removals if not removal.done()]
        try:
            self._removals.append(self._threads.submit(self._remove, name))
        except RuntimeError:
            self._remove(name)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _discard(self) -> None:
        self._threads.shutdown(wait=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _client(self) -> Any:
        """Return this thread's connection to the engine."""
        if not hasattr(self._local, "client"):
            self._local.client = engine_client(ENGINE_TIMEOUT_S)
            self._clients.append(self._local.client)
        return self._local.client

    def _check_runtime(self) -> bool:
        """Return whether the runtime is gVisor. Raises UnknownBackend if the engine does not have it."""
        if self.runtime is None:
            return False
        known = self._client().info().get("Runtimes") or {}
        # An engine starts shims of containerd by their name, without listing them.
        if self.runtime not in known and not self.runtime.startswith("io.containerd."):
            raise UnknownBackend(
                f"the Docker engine has no runtime `{self.runtime}`{suggestion(self.runtime, sorted(known))}: add it "
                "to the `runtimes` of dockerd, or change `runtime` in the `options` of the sandboxes"
            )
        return "runsc" in f"{self.runtime} {known.get(self.runtime)}"

    def _digest(self, image: str) -> str:
        if image not in self._digests:
            self._digests[image] = str(self._client().inspect_image(image)["Id"])
        return self._digests[image]

    def _create(self, name: str, spec: SandboxSpec, folder: Path) -> str:
        """Create and start a container with uids that no other live one has; return the digest of its image."""
        from docker.errors import APIError

        client = self._client()
        digest = self._digest(image_reference(spec.image))
        uids = REMAPPED_CONTAINER_UIDS if self._engine_has("userns", "rootless") else CONTAINER_UIDS
        for first_uid in islice(uids.draws(), UID_DRAWS_MAX):
            container = self._create_with(name, spec, folder, digest, first_uid)
            # Two that draw the same uids both find the other here, because each looks after it was created.
            same = client.containers(all=True, quiet=True, filters={"label": f"{UID}={first_uid}"})
            if len(same) == 1:
                break
            self._remove(name)
        else:
            raise StartFailed(f"{UID_DRAWS_MAX} times another sandbox had the same uids; end some of the sandboxes")
        try:
            client.start(name)
        except APIError as error:
            if NOT_FOUND in str(error):
                raise StartFailed(NO_PYTHON) from error
            raise
        limit_socket_memory(container, int(client.inspect_container(name)["State"]["Pid"]))
        return digest

    def _engine_has(self, *names: str) -> bool:
        """Return whether the engine reports one of these security options."""
        if self._engine_options is None:
            self._engine_options = self._client().info().get("SecurityOptions") or []
        return any(f"name={name}" in option.split(",") for option in self._engine_options for name in names)

    def _create_with(self, name: str, spec: SandboxSpec, folder: Path, digest: str, first_uid: int) -> str:
        """Create a container and return its id."""
        client = self._client()
        # Neither a rootless engine nor gVisor mounts a volume of this kind; gVisor's terminals are its own.
        limit_terminals = not (self._gvisor or self._engine_has("rootless"))
        host = host_options(spec, folder, first_uid, limit_terminals=limit_terminals)
        created = client.create_container(
            digest,
            entrypoint=guest_command("python3", str(first_uid), spec.ttl_s),
            command=[],
            environment={},
            host_config=client.create_host_config(**host, runtime=self.runtime),
            hostname="sandbox",
            labels={**labels(self.run, spec.ttl_s), UID: str(first_uid)},
            name=name,
            user="0:0",
            working_dir="/",
        )
        return str(created["Id"])

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

    def _removed(self, name: str) -> bool:
        """Remove one container as ``_remove`` does; an engine's error about it does not stop the caller."""
        import docker.errors

        try:
            return self._remove(name)
        except docker.errors.APIError:
            LOG.warning("a dead sandbox could not be removed; retrying later", exc_info=True, extra={"sandbox": name})
            return False

    def _remove_volumes(self) -> None:
        """Remove the volumes of containers that the engine removed without them."""
        import docker.errors

        unused = self._client().volumes(filters={"dangling": True, "label": f"{LABEL}=1"}).get("Volumes") or []
        for volume in unused:
            # Another process may remove it at the same time.
            with contextlib.suppress(docker.errors.APIError):
                self._client().remove_volume(volume["Name"])

    def _list(self) -> list[SandboxInfo]:
        found = self._client().containers(all=True, filters={"label": f"{LABEL}=1"})
        return [info for one in found if (info := describe_container(one)) is not None]

    def _reap(self) -> list[str]:
        found = self._list()
        names = {one.id for one in found}
        doomed = [one.id for one in found if one.reap_reason]
        doomed += [name for name in self._ending if name in names and name not in doomed]
        removed = [name for name in doomed if self._removed(name)]
        self._remove_volumes()
        now = monotonic()
        self._ending = {name: since for name, since in self._ending.items() if now - since < ENDING_MAX_S}
        return removed


def _image(client: Any, name: str) -> tuple[bool, str]:
    import docker.errors

    try:
        info = client.inspect_image(name)
    except docker.errors.ImageNotFound:
        return False, f"turnwise sandbox build {name.removeprefix('turnwise/').partition(':')[0]}"
    return True, f"{info['Id'][:19]}, {info['Size'] >> 20} MiB"


def describe_container(one: dict[str, Any]) -> SandboxInfo | None:
    """Return the info of a container; None if the engine's answer about it is incomplete, as during its removal."""
    try:
        name = one["Names"][0].lstrip("/")
        reason = reap_reason(one["Labels"], time(), this_host())
        return describe(name, one["State"], one["Image"], one["Labels"], reason)
    except (LookupError, TypeError):
        LOG.info("the engine describes a container incompletely", extra={"container": one.get("Id", "")})
        return None
