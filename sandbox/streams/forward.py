"""A port or unix socket of this machine that leads to a server in a sandbox."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import cast

from ..errors import SandboxError
from ..sandbox import Sandbox
from ..transport.guest_stream import FRAME_BYTES, GuestStream

IDLE_TIMEOUT_S = 3600.0
"""Time without a byte after which a forwarded connection is closed."""


class Forward:
    """A listener in the event loop of the sandbox."""

    def __init__(self, sandbox: Sandbox, address: int | str, timeout_s: float) -> None:
        """Forward to ``address`` in the sandbox; ``timeout_s`` is the one of each connect."""
        self.port = 0
        """Port of 127.0.0.1; 0 for a unix socket."""
        self._sandbox = sandbox
        self._address = address
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._path: Path | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, path: Path | None) -> None:
        """Listen on a unix socket, or on a free port of 127.0.0.1. Raises OSError."""
        if path is not None:
            self._path, self._server = path, await asyncio.start_unix_server(self._serve, path)
            os.chmod(path, 0o600)  # noqa: PTH101 - returns at once
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast(asyncio.Task[None], asyncio.current_task())
        self._tasks.add(task)
        stream = None
        try:
            stream = await self._sandbox.connect(self._address, timeout_s=self._timeout_s)
            async with asyncio.TaskGroup() as both:
                both.create_task(_send(reader, stream))
                both.create_task(_receive(stream, writer))
        except* (OSError, SandboxError):
            pass
        finally:
            self._tasks.discard(task)
            if stream is not None:
                stream.close()
            with contextlib.suppress(RuntimeError):
                writer.close()


async def _send(reader: asyncio.StreamReader, stream: GuestStream) -> None:
    while data := await reader.read(FRAME_BYTES):
        await stream.send(data, timeout_s=IDLE_TIMEOUT_S)
    await stream.end_input()


async def _receive(stream: GuestStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.receive(timeout_s=IDLE_TIMEOUT_S):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
