"""Install the guest agent in a sandbox, and accept its one connection: on a unix socket, or on TCP with a token.

The agent connects to an address of the host: the path of a unix socket, or ``tcp:HOST:PORT`` with a token in the
environment variable ``guest.frames.TOKEN_VARIABLE``, which the agent removes.
"""

import asyncio
import hmac
import os
import secrets
import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from .. import guest
from ..errors import NoEngine
from .connection import GuestConnection
from .frame_protocol import HEADER_MAX_BYTES

MOUNT = "/run/turnwise"
"""Read-only mount point of a sandbox's folder."""
PACKAGE = "guest"
SOCKET = "s"
SOCKETS_VARIABLE = "TURNWISE_SOCKETS"
"""Environment variable with the folder that has the sockets of sandboxes; default: the temporary folder."""
SOCKET_PATH_MAX_BYTES = 107
LONGEST_NAME = "turnwise-0123456789abcdef"
"""A name of a sandbox."""
BOOT = "import sys; sys.path.insert(0, {folder!r}); from {package}.server import main; main(*sys.argv[1:])"
HELLO_MAX_BYTES = 4096
"""Maximum size of the first frame, which is read before the sender has proved anything."""


class Listener(ABC):
    """Accepts one guest agent, then closes, so that no other process can connect later."""

    token = ""
    """The guest agent must send it; empty if the socket itself admits no other process."""
    max_pending = 1
    """Connections that may wait to send their first frame; further ones are closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._connected: asyncio.Future[GuestConnection] = asyncio.get_running_loop().create_future()
        self._pending: dict[asyncio.Task[None], GuestConnection] = {}
        self._server: asyncio.Server | None = None

    @abstractmethod
    async def _listen(self) -> asyncio.Server:
        """Return a server that does not accept yet and makes its protocols by ``_make``. Raises OSError."""

    @abstractmethod
    def _forget_address(self) -> None:
        """Remove the address once a guest agent is connected, or none is expected."""

    async def __aenter__(self) -> Self:
        """Start to listen. Raises OSError."""
        self._server = await self._listen()
        try:
            await self._server.start_serving()
        except BaseException:
            # After a cancellation at this await, no other code would close the server.
            self._server.close()
            raise
        return self

    async def __aexit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Stop listening. An accepted connection stays open, unless the start of its sandbox failed."""
        if self._server is not None:
            self._server.close()
        self._forget_address()
        for task, connection in list(self._pending.items()):
            task.cancel()
            connection.close("another guest agent is connected")
        if not self._connected.done():
            self._connected.cancel()
        elif error is not None and self._connected.exception() is None:
            self._connected.result().close("its sandbox did not start")

    async def accept(self, timeout_s: float) -> GuestConnection:
        """Return the connection once the guest agent has sent its first frame.

        Raises:
            TimeoutError: the agent did not connect within ``timeout_s``.
            OSError, EOFError: the agent closed the connection.
        """
        async with asyncio.timeout(timeout_s):
            return await asyncio.shield(self._connected)

    def _make(self) -> GuestConnection:
        connection = GuestConnection(self.name)
        if self._connected.done() or len(self._pending) >= self.max_pending:
            connection.close()
            return connection
        connection.header_max_bytes, connection.payload_max_bytes = HELLO_MAX_BYTES, 0
        task = asyncio.get_running_loop().create_task(self._greet(connection))
        self._pending[task] = connection
        task.add_done_callback(lambda done: self._pending.pop(done, None))
        return connection

    async def _greet(self, connection: GuestConnection) -> None:
        try:
            hello = await connection.hello()
        except (OSError, EOFError, ValueError) as error:
            if not self.token and not self._connected.done():
                self._connected.set_exception(error)
                # Nobody may be waiting for it.
                self._connected.exception()
            return
        if self._connected.done() or not hmac.compare_digest(str(hello.get("token", "")).encode(), self.token.encode()):
            connection.close("it sent no valid token")
            return
        connection.header_max_bytes = HEADER_MAX_BYTES
        self._forget_address()
        # Before this task is done: `__aexit__` may run first, and closes the connections that are still pending.
        self._pending = {task: one for task, one in self._pending.items() if one is not connection}
        self._connected.set_result(connection)


class UnixListener(Listener):
    """A unix socket in a folder that only the sandbox can see."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__(name)
        self.path = path

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_unix_server(self._make, self.path, start_serving=False)

    def _forget_address(self) -> None:
        self.path.unlink(missing_ok=True)


class TcpListener(Listener):
    """A TCP port, for sandboxes that share no folder with the host. Bytes are not encrypted."""

    max_pending = 16

    def __init__(self, name: str, host: str = "127.0.0.1") -> None:
        """``host`` is the address to bind; any other than loopback admits other machines, which need the token."""
        super().__init__(name)
        self.host = host
        self.port = 0
        """Set when listening."""
        self.token = secrets.token_hex(32)

    async def _listen(self) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._make, self.host, 0, start_serving=False)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def _forget_address(self) -> None:
        """Do nothing: a closed port has no name in the file system."""


def make_sockets_folder() -> Path:
    """Return a new folder for the folders of a backend's sandboxes, in ``TURNWISE_SOCKETS`` or the temporary folder.

    Raises:
        NoEngine: the folder cannot be made, or its path is too long for unix sockets.
    """
    parent = os.environ.get(SOCKETS_VARIABLE) or tempfile.gettempdir()
    what = f"the folder `{parent}` cannot have the sockets of sandboxes"
    try:
        folder = Path(tempfile.mkdtemp(prefix="tw-", dir=parent))
        folder.chmod(0o711)
    except OSError as error:
        raise NoEngine(f"{what} ({error.strerror}): set `{SOCKETS_VARIABLE}` to a folder that exists") from error
    if len(os.fsencode(folder / LONGEST_NAME / SOCKET)) > SOCKET_PATH_MAX_BYTES:
        folder.rmdir()
        raise NoEngine(f"{what} (its path is too long): set `{SOCKETS_VARIABLE}` to a folder with a shorter path")
    return folder


def prepare_folder(folder: Path) -> Path:
    """Create a sandbox's folder with the guest agent in it, and return the path of the socket to listen on."""
    folder.mkdir(mode=0o755)
    source = Path(guest.__file__).parent
    (folder / PACKAGE).mkdir()
    for file in source.glob("*.py"):
        shutil.copyfile(file, folder / PACKAGE / file.name)
    return folder / SOCKET


def guest_command(
    python: str, user: str, ttl_s: float, *limits: str, folder: str = MOUNT, address: str | None = None
) -> list[str]:
    """Return the command that starts the guest agent; its arguments are those of ``guest.server.main``.

    ``folder`` is the one of ``prepare_folder``, seen from inside; ``address`` is the socket in it by default.
    """
    boot = BOOT.format(folder=folder, package=PACKAGE)
    return [python, "-I", "-S", "-B", "-c", boot, address or f"{folder}/{SOCKET}", user, str(ttl_s), *limits]
