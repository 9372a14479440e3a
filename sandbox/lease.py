"""A leased sandbox, for code that blocks: environments live in threads of their own and know no event loop.

Where it comes from is a ``Source``: a pool in this process (``here``), or the hosts of a Ray cluster (``hosts``). A
process has one source at a time: a rollout worker is told its own when it starts, and everyone else gets a pool in this
process when first asked.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self

from .errors import SandboxError
from .pool.loop_thread import LoopThread
from .protocol import ExecResult
from .sandbox import Box
from .spec import SandboxSpec


class SandboxLease:
    """One lease, from ``Source.lease`` to ``give_back``. The methods are those of ``protocol.Sandbox``, blocking, and
    raise the same; after ``give_back``, SandboxError.
    """

    def __init__(self, box: Box, thread: LoopThread, back: Callable[[], object]) -> None:
        """``back`` ends the lease; called once, in ``thread``."""
        self._box = box
        self._thread = thread
        self._back = back
        self._lock = threading.Lock()
        self._over = False

    @property
    def id(self) -> str:
        """See ``protocol.Sandbox``."""
        return self._box.id

    @property
    def spec(self) -> SandboxSpec:
        """See ``protocol.Sandbox``."""
        return self._box.spec

    @property
    def digest(self) -> str:
        """The image's, for the record; empty where there is none."""
        return self._box.digest

    def __enter__(self) -> Self:
        """For ``with``: given back at its end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """See ``__enter__``."""
        self.release()

    def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        output_kib: int | None = None,
    ) -> ExecResult:
        """See ``protocol.Sandbox``."""
        work = self._held().exec(argv, timeout_s=timeout_s, stdin=stdin, env=env, output_kib=output_kib)
        return self._thread.wait(work, timeout_s)

    def request(self, socket: str, message: bytes, *, timeout_s: float, output_kib: int | None = None) -> ExecResult:
        """See ``protocol.Sandbox``."""
        work = self._held().request(socket, message, timeout_s=timeout_s, output_kib=output_kib)
        return self._thread.wait(work, timeout_s)

    def read(self, path: str, *, timeout_s: float) -> dict[str, bytes]:
        """See ``protocol.Sandbox``."""
        return self._thread.wait(self._held().read(path, timeout_s=timeout_s), timeout_s)

    def write(self, files: Mapping[str, bytes], *, timeout_s: float, executable: bool = False) -> None:
        """See ``protocol.Sandbox``."""
        self._thread.wait(self._held().write(files, timeout_s=timeout_s, executable=executable), timeout_s)

    def reset(self, *, timeout_s: float) -> None:
        """See ``protocol.Sandbox``."""
        self._thread.wait(self._held().reset(timeout_s=timeout_s), timeout_s)

    def release(self) -> None:
        """End the lease: the sandbox is cleared for the next. Raises nothing; twice is the same as once."""
        with self._lock:
            if self._over:
                return
            self._over = True
        self._thread.soon(self._back)

    def _held(self) -> Box:
        if self._over:
            raise SandboxError(f"sandbox {self.id} was given back")
        return self._box


class Source(Protocol):
    """Where leases come from."""

    def lease(self, spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
        """A clean sandbox within ``deadline`` seconds, for ``holds`` seconds at most. Raises as ``pool.Pool.lease``."""
        ...


_source: Source | None = None
_choosing = threading.Lock()


def set_provider(source: Source | None) -> None:
    """From now on this process's leases come from here; None: from a pool in this process."""
    global _source
    with _choosing:
        _source = source


def lease(spec: SandboxSpec, *, timeout_s: float, max_duration_s: float | None = None) -> SandboxLease:
    """A clean sandbox from this process's source. Raises as ``pool.Pool.lease``."""
    global _source
    with _choosing:
        if _source is None:
            from .pool.in_process import InProcessPool

            _source = InProcessPool()
        source = _source
    return source.lease(spec, timeout_s=timeout_s, max_duration_s=max_duration_s)
