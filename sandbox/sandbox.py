"""Asynchronous handle of one sandbox, the same for every backend.

A backend starts the sandbox and passes the connection to its guest agent. Closing the connection ends the sandbox from
inside. All timeouts are in seconds from the call. The behavior of a *command* is in its ``ExecResult``; a failure of
the infrastructure is raised. After ``SandboxLost`` or ``SandboxBroken``, the sandbox cannot be used again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, TypeVar

from .errors import FileError, SandboxBroken, SandboxError, SandboxLost, StreamError
from .spec import SandboxSpec
from .transport.answers import ResultHeader, contents, decode_tree, digest, encode_tree, refusal
from .transport.connection import GuestConnection
from .transport.frame_protocol import MALFORMED
from .transport.guest_stream import GuestStream
from .transport.tree import Tree

T = TypeVar("T")

WORKSPACE = "/workspace"
"""Working directory of every command; relative paths are relative to it."""
GUEST_GRACE_S = 5.0
"""Time after a command's timeout within which the guest agent must have killed the command and answered."""
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",  # noqa: S108 - folder of the sandbox
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Environment variables of every command besides those of the caller; none come from the host."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Result of a command. At most one of ``timed_out``, ``output_limit_exceeded`` and ``oom`` is why it ended."""

    exit_code: int
    """Exit status; the negative signal number if a signal ended the command; 127 if it could not be started."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    """The command exceeded its timeout and was killed with every process that it had started."""
    output_limit_exceeded: bool = False
    """The command exceeded its output limit and was killed; the output up to the limit is kept."""
    oom: bool = False
    """The limit of memory, or of sockets, killed a process of the sandbox during the command."""
    duration_s: float = 0.0
    """Measured inside the sandbox."""


def _result(answer: Any, data: bytes) -> ExecResult:
    """Return the result of a command or of a request to a socket. Raises ValueError."""
    fields = ResultHeader.model_validate(answer).model_dump()
    stdout_bytes = fields.pop("stdout_bytes")
    return ExecResult(stdout=data[:stdout_bytes], stderr=data[stdout_bytes:], **fields)


class Sandbox:
    """An isolated machine with a working directory."""

    def __init__(
        self,
        name: str,
        spec: SandboxSpec,
        connection: GuestConnection,
        on_close: Callable[[], Awaitable[None]],
        digest: str = "",
        backend: str = "",
    ) -> None:
        """Wrap a started sandbox; ``close`` awaits ``on_close`` once, which must not raise."""
        self.id = name
        """A name that is unique on this host."""
        self.spec = spec
        """The spec of the current lease; its limits of single calls may differ from those at the start."""
        self.connection = connection
        self._on_close = on_close
        self._closed = False
        self.digest = digest
        """Digest of the image; empty if the backend has no images."""
        self.backend = backend
        """Name of the backend that started it; the pool sets it."""
        self.expires_at = min(monotonic() + spec.ttl_s, connection.ends_at)
        connection.ends_at = self.expires_at

    @property
    def alive(self) -> bool:
        """Return whether the sandbox is usable, as far as known without a request."""
        return self.connection.alive

    async def exec(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        output_kib: int | None = None,
        user: int = 0,
    ) -> ExecResult:
        """Run a command in ``WORKSPACE`` and return its result.

        Background processes of the command live until ``reset``, except if the command is killed. ``output_kib``
        replaces the limit of the spec. ``user`` is one of the four users of the sandbox, 0 to 3: none may signal or
        trace the processes of another, or open its private files. User 0 owns ``WORKSPACE``; the local backend has no
        other.

        Raises:
            SandboxBroken: the commands of the sandbox broke it; every other method raises it too.
            SandboxLost: something outside the sandbox ended it, it did not answer within ``GUEST_GRACE_S`` after the
                timeout, or it has no such user; or the guest agent failed.
        """
        limit = (output_kib or self.spec.output_kib) << 10
        header = {
            "op": "exec",
            "argv": list(argv),
            "timeout_s": timeout_s,
            "max_output_bytes": limit,
            "env": {**ENVIRONMENT, **(env or {})},
            "user": user,
        }

        def parse(answer: Any, data: bytes) -> ExecResult:
            if (reason := refusal(answer)) is not None:
                # The guest agent could not fork: background processes of the agent use up the process limit.
                return ExecResult(127, b"", f"{argv[0]}: {reason}".encode(errors="backslashreplace"))
            return _result(answer, data)

        return await self._call(header, stdin, parse, max_bytes=2 * limit)

    async def request(
        self, socket: str, message: bytes, *, timeout_s: float, output_kib: int | None = None, user: int = 0
    ) -> ExecResult:
        """Send a message to a process in the sandbox that listens on a unix socket, and return its reply.

        The reply is ``stdout`` of the result and ends when the listener closes the socket. ``exit_code`` is the errno
        if no process listens. A timeout or an exceeded output limit kills nothing. ``user`` connects, as in ``exec``.

        Raises:
            SandboxLost: as in ``exec``.
        """
        limit = (output_kib or self.spec.output_kib) << 10
        header = {"op": "request", "path": socket, "timeout_s": timeout_s, "max_output_bytes": limit, "user": user}
        return await self._call(header, message, _result, max_bytes=limit)

    async def connect(self, address: int | str, *, timeout_s: float, user: int = 0) -> GuestStream:
        """Return a byte stream to a port of 127.0.0.1 in the sandbox, or to the path of a unix socket in it.

        ``user``, as in ``exec``, needs the right to connect to the path.

        The stream ends with the server, with ``close``, and with ``reset``.

        Raises:
            StreamError: no process listens there, or the sandbox has too many open streams.
            SandboxLost: as in ``exec``.
        """
        header = {"op": "connect", "address": address, "timeout_s": timeout_s, "user": user}
        try:
            return await self.connection.open_stream(header, 1, timeout_s=timeout_s + GUEST_GRACE_S)
        except StreamError as error:
            raise StreamError(f"cannot connect to {address} in sandbox {self.id}: {error}") from None

    async def open_process(
        self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, user: int = 0
    ) -> GuestStream:
        """Start a command as ``exec`` does and return a stream to it: stdin, stdout (channel 0) and stderr (1).

        The process runs until it exits, ``close`` or ``reset``. A process that cannot be started exits with 127.

        Raises:
            StreamError: the guest agent could not fork, or the sandbox has too many open streams.
            SandboxLost: as in ``exec``.
        """
        environment = {**ENVIRONMENT, **(env or {})}
        header = {"op": "open_process", "argv": list(argv), "env": environment, "timeout_s": timeout_s, "user": user}
        try:
            return await self.connection.open_stream(header, 2, timeout_s=timeout_s + GUEST_GRACE_S)
        except StreamError as error:
            raise StreamError(f"cannot start {argv[0]} in sandbox {self.id}: {error}") from None

    async def read(self, path: str, *, timeout_s: float, user: int = 0) -> dict[str, bytes]:
        """Return the contents of all regular files below a folder, by path relative to it, or of one file (``.``).

        Files are read with the rights of ``user``, as in ``exec``. Links are not followed, and other kinds of files
        are skipped, as are those of the kernel (``/proc``, ``/sys``).

        Raises:
            FileError: the path does not exist, the files exceed ``spec.read_mib``, or reading them exceeds the timeout.
            SandboxLost: as in ``exec``.
        """
        max_bytes = self.spec.read_mib << 20
        header = {"op": "read", "path": path, "max_bytes": max_bytes, "timeout_s": timeout_s, "user": user}

        def parse(answer: Any, data: bytes) -> dict[str, bytes]:
            self._check_done(f"read {path}", answer)
            return contents(answer, data)

        return await self._call(header, b"", parse, max_bytes=max_bytes)

    async def read_tree(self, path: str, *, timeout_s: float, user: int = 0) -> Tree:
        """Return everything below a folder; a path that is not a folder is the entry ``.`` of its tree.

        Entries are read with the rights of ``user``, as in ``exec``.

        Raises:
            FileError: the path does not exist, the folder may not be listed, the contents exceed ``spec.read_mib``, or
                reading them exceeds the timeout.
            SandboxLost: as in ``exec``.
        """
        return (await self._read_tree(path, "", timeout_s, user))[1] or Tree({})

    async def read_changes(self, path: str, known: str, *, timeout_s: float) -> tuple[str, Tree | None]:
        """Return a digest of the tree of ``read_tree``, and the tree; None if the digest is ``known``.

        The sandbox computes the digest from all but times, so a tree that has not changed is not transferred.

        Raises:
            FileError, SandboxLost: as in ``read_tree``.
        """
        return await self._read_tree(path, known, timeout_s, user=0)

    async def _read_tree(self, path: str, known: str, timeout_s: float, user: int) -> tuple[str, Tree | None]:
        max_bytes = self.spec.read_mib << 20
        header = {"op": "read_tree", "path": path, "known": known, "max_bytes": max_bytes}

        def parse(answer: Any, data: bytes) -> tuple[str, Tree | None]:
            self._check_done(f"read {path}", answer)
            found = digest(answer)
            return found, None if found == known else decode_tree(answer, data)

        return await self._call({**header, "timeout_s": timeout_s, "user": user}, b"", parse, max_bytes=max_bytes)

    async def write_tree(self, path: str, tree: Tree, *, timeout_s: float, user: int = 0) -> None:
        """Put a tree in place below a folder with the rights of ``user``, as in ``exec``, without its ``lost`` entries.

        Raises:
            FileError, SandboxLost: as in ``write``.
        """
        entries, data = encode_tree(tree)
        header = {"op": "write_tree", "path": path, "entries": entries, "timeout_s": timeout_s, "user": user}
        await self._call(header, data, lambda answer, _: self._check_done("write", answer))

    async def write(
        self, files: Mapping[str, bytes], *, timeout_s: float, executable: bool = False, user: int = 0
    ) -> None:
        """Write files by path with the rights of ``user``, as in ``exec``, and create missing folders.

        Raises:
            FileError: ``user`` may not write there, the path is not a regular file or is one of the kernel, the disk is
                full, or writing exceeds the timeout.
            SandboxLost: as in ``exec``.
        """
        names = [[name, len(content)] for name, content in files.items()]
        header = {"op": "write", "files": names, "executable": executable, "timeout_s": timeout_s, "user": user}
        await self._call(header, b"".join(files.values()), lambda answer, data: self._check_done("write", answer))

    async def reset(self, *, timeout_s: float) -> None:
        """End every stream and every process of the sandbox users, and empty every place that they can write to.

        Raises:
            SandboxLost: as in ``exec``.
            SandboxBroken: as in ``exec``, or the commands left something that cannot be removed.
        """
        self.connection.end_streams("the sandbox was reset")
        failed = await self._call({"op": "reset", "timeout_s": timeout_s}, b"", lambda answer, data: refusal(answer))
        if failed is not None:
            self.connection.close("its reset failed")
            raise SandboxBroken(f"the reset of sandbox {self.id} failed: {failed}")

    def _check_done(self, operation: str, answer: Mapping[str, Any]) -> None:
        """Raise FileError if the guest agent refused to read or write files, and ValueError."""
        if (reason := refusal(answer)) is not None:
            raise FileError(f"cannot {operation} in sandbox {self.id}: {reason}")

    async def _call(
        self, header: dict[str, Any], payload: bytes, parse: Callable[[Any, bytes], T], *, max_bytes: int = 0
    ) -> T:
        """Send a request with a timeout to the guest agent, and return what ``parse`` makes of its answer.

        Raises:
            SandboxLost: as in ``exec``; also if ``parse`` raises an error of ``MALFORMED``.
        """
        timeout_s = header["timeout_s"] + GUEST_GRACE_S
        answer, data = await self.connection.call(header, payload, timeout_s=timeout_s, max_bytes=max_bytes)
        kind: type[SandboxError] = SandboxLost
        try:
            if "failure" not in answer:
                return parse(answer, data)
            reason = f"its guest agent failed: {answer['failure']}"
        except MALFORMED as error:
            kind, reason = SandboxBroken, f"its guest agent sent a malformed answer: {type(error).__name__}"
        self.connection.close(reason)
        raise kind(f"sandbox {self.id}: {header['op']}: {reason}")

    async def close(self) -> None:
        """End the sandbox. Raises nothing; further calls do nothing."""
        if not self._closed:
            self._closed = True
            self.connection.close()
            await self._on_close()
