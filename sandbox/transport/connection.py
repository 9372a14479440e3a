"""The host's end of the wire to one step server.

A frame is two lengths, a JSON header and a payload of bytes; a request is answered before the next is sent. Whatever
breaks the order (a deadline, a cancellation, a closed socket) breaks the link for good, since what would come next is
unknown: the sandbox behind it is then lost.
"""

import asyncio
import contextlib
import json
import struct
from pathlib import Path
from typing import Any, Self

from ..errors import SandboxError, SandboxLost

FRAME = struct.Struct("!II")
MAX_HEADER, MAX_PAYLOAD = 4 << 20, 300 << 20
LIMIT = 1 << 20
"""Bytes that a stream holds before it makes the sender wait."""


class GuestConnection:
    """One connection. Of one event loop; calls are made one at a time."""

    gone: type[SandboxError] = SandboxLost
    """What a broken link means for whoever calls."""
    ended = "the step server ended, and the sandbox with it: most likely it was stopped from outside"

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name = name
        self.broken = ""
        """Why it is of no further use; empty while it is."""
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether the other end still holds the connection, as far as is known without asking."""
        return not self.broken and not self._reader.at_eof()

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """Send a request and wait for its answer.

        Raises:
            SandboxLost: the link is broken, or breaks now (``gone``, if that is another error).
        """
        what = f"sandbox {self.name}: {header['op']}"
        async with self._turn:
            if self.broken:
                raise self.gone(f"{what}: {self.broken}")
            try:
                async with asyncio.timeout(timeout_s):
                    await self.send(header, payload)
                    return await self.receive()
            except TimeoutError:
                self.close(f"no answer within {timeout_s:g} s")
                raise self.gone(f"{what}: {self.broken}") from None
            except (OSError, EOFError, ValueError) as error:
                self.close(self.ended)
                raise self.gone(f"{what}: {self.broken}") from error
            except BaseException:
                self.close("a call was given up half-way")
                raise

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Write one frame. Raises OSError."""
        head = json.dumps(header).encode()
        self._writer.write(FRAME.pack(len(head), len(payload)) + head + payload)
        await self._writer.drain()

    async def receive(self) -> tuple[Any, bytes]:
        """The next frame. Raises EOFError or ValueError."""
        size, length = FRAME.unpack(await self._reader.readexactly(FRAME.size))
        if size > MAX_HEADER or length > MAX_PAYLOAD:
            raise ValueError(f"a frame of {size} and {length} bytes")
        head = json.loads(await self._reader.readexactly(size))
        if not isinstance(head, dict):
            raise ValueError("a frame whose header is no object")
        return head, await self._reader.readexactly(length)

    def close(self, why: str = "closed") -> None:
        """Hang up; the step server then ends its box."""
        self.broken = self.broken or why
        self._writer.close()


class Listener:
    """A unix socket that takes one connection and is gone: the box that dials it is the only one that ever can."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path
        self._dialled: asyncio.Future[GuestConnection] = asyncio.get_running_loop().create_future()
        self._server: asyncio.AbstractServer | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._accept, self.path, limit=LIMIT, start_serving=False)
        try:
            await self._server.start_serving()
        except BaseException:
            # Given up in just this moment: nobody else would close it.
            self._server.close()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Hear no more; a link that was made lives on."""
        if self._server is not None:
            self._server.close()
        self.path.unlink(missing_ok=True)
        if not self._dialled.done():
            self._dialled.cancel()

    async def link(self, timeout_s: float) -> GuestConnection:
        """The connection, once the step server has said hello.

        Raises:
            TimeoutError: it did not within ``deadline`` seconds.
            OSError, EOFError: it hung up.
        """
        async with asyncio.timeout(timeout_s):
            link = await asyncio.shield(self._dialled)
            await link.receive()
        return link

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._dialled.done():
            writer.close()
            return
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
        self._dialled.set_result(GuestConnection(self.name, reader, writer))
