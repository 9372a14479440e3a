"""Blocking handle of one leased sandbox, for environments, which run in threads without an event loop."""

import functools
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

from .errors import SandboxError
from .loop_thread import LoopThread
from .sandbox import Sandbox
from .spec import SandboxSpec
from .streams import Forward, SandboxProcess, SandboxStream

LIMITS = ("cpus", "memory_mib", "disk_mib", "pids", "network")
"""The fields of a spec that an episode records."""
P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[Sandbox, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SandboxLease", P], T]:
    """Return the blocking form of a method that has a ``timeout_s``."""

    @functools.wraps(method)
    def call(lease: "SandboxLease", /, *arguments: P.args, **options: P.kwargs) -> T:
        work = method(lease._held(), *arguments, **options)
        return lease._thread.wait(work, cast(float, options["timeout_s"]))

    return call


class SandboxLease:
    """A lease, valid from ``LeaseProvider.lease`` to ``release``.

    It has the methods of ``Sandbox``, in blocking form. After ``release``, every method raises SandboxError.
    """

    def __init__(self, sandbox: Sandbox, thread: LoopThread, on_release: Callable[[], object]) -> None:
        """Lease ``sandbox``, which lives in ``thread``; ``release`` schedules ``on_release`` there once."""
        self._sandbox = sandbox
        self._thread = thread
        self._on_release = on_release
        self._lock = threading.Lock()
        self._released = False
        self._forwards: list[Forward] = []

    @property
    def id(self) -> str:
        """Return the sandbox's name, which is unique on its host."""
        return self._sandbox.id

    @property
    def spec(self) -> SandboxSpec:
        """Return the spec of this lease."""
        return self._sandbox.spec

    @property
    def digest(self) -> str:
        """Return the digest of the image; empty if the backend has no images."""
        return self._sandbox.digest

    def facts(self) -> dict[str, Any]:
        """Return image, digest, backend and limits, as JSON values for the record of an episode."""
        spec, own = self.spec, {"digest": self.digest, "backend": self._sandbox.backend}
        return {"image": spec.image, **own, **{name: getattr(spec, name) for name in LIMITS}}

    def __enter__(self) -> Self:
        """Return the lease, which the end of the ``with`` block releases."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lease."""
        self.release()

    exec = _blocking(Sandbox.exec)
    request = _blocking(Sandbox.request)
    read = _blocking(Sandbox.read)
    read_tree = _blocking(Sandbox.read_tree)
    read_changes = _blocking(Sandbox.read_changes)
    write = _blocking(Sandbox.write)
    write_tree = _blocking(Sandbox.write_tree)
    reset = _blocking(Sandbox.reset)

    def connect(self, address: int | str, *, timeout_s: float, user: int = 0) -> SandboxStream:
        """Return a byte stream to a server in the sandbox as ``Sandbox.connect`` does."""
        stream = self._thread.wait(self._held().connect(address, timeout_s=timeout_s, user=user), timeout_s)
        return SandboxStream(stream, self._thread)

    def open_process(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, user: int = 0
    ) -> SandboxProcess:
        """Start a command with streams as ``Sandbox.open_process`` does."""
        work = self._held().open_process(argv, timeout_s=timeout_s, env=env, user=user)
        stream = self._thread.wait(work, timeout_s)
        return SandboxProcess(stream, self._thread)

    def forward(self, address: int | str, *, to: Path | None = None, timeout_s: float = 10.0) -> Forward:
        """Listen on this machine and pass each connection to a server in the sandbox, until the lease ends.

        Args:
            address: as for ``connect``.
            to: the unix socket to listen on; None: a port of 127.0.0.1, which every user of this machine can reach.
            timeout_s: of each ``connect``.

        Raises:
            OSError: this machine refuses to listen there.
        """
        forward = Forward(self._held(), address, timeout_s)
        self._thread.wait(forward.open(to), timeout_s)
        self._forwards.append(forward)
        return forward

    def release(self) -> None:
        """End the lease; the sandbox is reset in the background. Raises nothing; further calls do nothing."""
        with self._lock:
            if self._released:
                return
            self._released = True
        for forward in self._forwards:
            self._thread.call_soon(forward.close)
        self._thread.call_soon(self._on_release)

    def _held(self) -> Sandbox:
        if self._released:
            raise SandboxError(f"the lease of sandbox {self.id} was released")
        return self._sandbox
