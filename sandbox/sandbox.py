"""A sandbox with a step server in it: the one implementation of ``protocol.Sandbox``, whatever holds the box.

A backend starts the box and hands over the link; hanging up ends the box from inside. ``ended`` is what else the
backend does when a box is closed, and must not raise.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

from .errors import FileError, SandboxLost
from .protocol import ExecResult
from .spec import SandboxSpec

GRACE = 5.0
"""Seconds beyond a command's deadline within which the step server must have ended it and answered."""
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the sandbox's own
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""All a command finds in its environment but what it is given: nothing of the host's."""


class Transport(Protocol):
    """The way to a step server: ``link.Link`` straight to it, or by way of the host that holds it (``gate``)."""

    @property
    def alive(self) -> bool:
        """Whether it can be used, as far as is known without asking."""
        ...

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """Send a request and wait for its answer. Raises SandboxLost; NodeLost where a host is between."""
        ...

    def close(self, why: str = "closed") -> None:
        """Hang up."""
        ...


class Box:
    """See ``protocol.Sandbox`` for every method."""

    def __init__(
        self, name: str, spec: SandboxSpec, link: Transport, ended: Callable[[], Awaitable[None]], digest: str = ""
    ) -> None:
        self._name = name
        self._spec = spec
        self.link = link
        self._ended = ended
        self._closed = False
        self.digest = digest
        """What the image was, exactly; empty where there is none."""
        self.expires = monotonic() + spec.ttl

    @property
    def id(self) -> str:
        """See ``protocol.Sandbox``."""
        return self._name

    @property
    def spec(self) -> SandboxSpec:
        """See ``protocol.Sandbox``."""
        return self._spec

    @property
    def alive(self) -> bool:
        """Whether it can be used, as far as is known without asking it."""
        return self.link.alive

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        output_kib: int | None = None,
    ) -> ExecResult:
        """See ``protocol.Sandbox``."""
        request = {
            "op": "exec",
            "argv": list(argv),
            "timeout_s": timeout_s,
            "cap": (output_kib or self._spec.output_kib) << 10,
            "env": {**ENVIRONMENT, **(env or {})},
        }
        answer, data = await self.link.call(request, stdin, timeout_s=timeout_s + GRACE)
        if "error" in answer:
            # The step server could not even fork: what the agent left running uses up the limit on processes.
            return ExecResult(127, b"", f"{argv[0]}: {answer['error']}".encode())
        cut = answer.pop("stdout")
        return ExecResult(stdout=data[:cut], stderr=data[cut:], **answer)

    async def request(
        self, socket: str, message: bytes, *, timeout_s: float, output_kib: int | None = None
    ) -> ExecResult:
        """See ``protocol.Sandbox``."""
        request = {
            "op": "ask",
            "path": socket,
            "timeout_s": timeout_s,
            "cap": (output_kib or self._spec.output_kib) << 10,
        }
        answer, data = await self.link.call(request, message, timeout_s=timeout_s + GRACE)
        if "error" in answer:
            return ExecResult(1, b"", answer["error"].encode())
        answer.pop("stdout")
        return ExecResult(stdout=data, stderr=b"", **answer)

    async def read(self, path: str, *, timeout_s: float) -> dict[str, bytes]:
        """See ``protocol.Sandbox``."""
        request = {"op": "read", "path": path, "cap": self._spec.read_mib << 20}
        answer, data = await self.link.call(request, timeout_s=timeout_s)
        if "error" in answer:
            raise FileError(f"cannot read {path} in sandbox {self._name}: {answer['error']}")
        files, offset = {}, 0
        for name, length in answer["files"]:
            files[str(name)] = data[offset : offset + length]
            offset += length
        return files

    async def write(self, files: Mapping[str, bytes], *, timeout_s: float, executable: bool = False) -> None:
        """See ``protocol.Sandbox``."""
        names = [[name, len(content)] for name, content in files.items()]
        request = {"op": "write", "files": names, "executable": executable}
        answer, _ = await self.link.call(request, b"".join(files.values()), timeout_s=timeout_s)
        if "error" in answer:
            raise FileError(f"cannot write in sandbox {self._name}: {answer['error']}")

    async def reset(self, *, timeout_s: float) -> None:
        """See ``protocol.Sandbox``."""
        answer, _ = await self.link.call({"op": "reset"}, timeout_s=timeout_s)
        if "error" in answer:
            self.link.close("it could not be cleared")
            raise SandboxLost(f"sandbox {self._name} could not be cleared: {answer['error']}")

    async def close(self) -> None:
        """See ``protocol.Sandbox``."""
        if not self._closed:
            self._closed = True
            self.link.close()
            await self._ended()
