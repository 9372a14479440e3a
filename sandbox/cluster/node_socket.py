"""How a worker reaches the sandboxes that a host holds: frames for the step server, passed on by the host.

On the same node they go through the host's ``NodeSocket``, a unix socket in a folder of its user's own. A connection
is one lease, so whatever becomes of the worker, its end is the lease's. From elsewhere, or where the socket is out of
sight (in another container), they go as calls of the Ray actor, each of which costs some milliseconds more.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from ..errors import NodeLost, SandboxError, SandboxLost, classify
from ..sandbox import Box
from ..transport.connection import LIMIT, GuestConnection

T = TypeVar("T")
LATE = 10.0
"""Seconds beyond a request's own deadline after which the host itself must be gone."""
CLAIM_SECONDS = 15.0
"""Within which a lease must be used for the first time: whoever asked for it may have died meanwhile."""


class NodeSocket:
    """A host's socket for the workers of its node. Of one event loop."""

    def __init__(self, leased: Callable[[str], Box], over: Callable[[str], None]) -> None:
        """``leased`` finds the box of a lease, or raises NodeLost; ``over`` ends the lease."""
        self._leased = leased
        self._over = over
        self._server: asyncio.AbstractServer | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="tw-gate-"))
        self.path = self._folder / "gate"

    async def open(self) -> "NodeSocket":
        """Listen. Raises OSError, where the path is too long for a socket."""
        try:
            self._server = await asyncio.start_unix_server(self._serve, self.path, limit=LIMIT)
        except OSError:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Hear no more."""
        if self._server is not None:
            self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = GuestConnection("gate", reader, writer)
        lease = ""
        try:
            lease = str((await worker.receive())[0]["lease"])
            self._leased(lease)
            while True:
                header, payload = await worker.receive()
                try:
                    call = self._leased(lease).link.call(header, payload, timeout_s=header.pop("within"))
                    answer = await unless_gone(call, reader)
                except NodeLost as error:
                    answer = {"over": str(error)}, b""
                except SandboxError as error:
                    answer = {"lost": str(error)}, b""
                await worker.send(*answer)
        except (OSError, EOFError, ValueError, LookupError, NodeLost):
            pass
        finally:
            worker.close()
            self._over(lease)


async def unless_gone(call: Coroutine[Any, Any, T], reader: asyncio.StreamReader) -> T:
    """What ``call`` gives, unless the worker hangs up before: then it is given up, which ends the box.

    Raises:
        EOFError: the worker is gone.
    """
    calling = asyncio.ensure_future(call)
    # Nothing is sent before the answer is there: what can be read meanwhile is the end.
    ending = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait((calling, ending), return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
        raise EOFError
    finally:
        for task in (calling, ending):
            task.cancel()
        await asyncio.gather(calling, ending, return_exceptions=True)


class SocketConnection(GuestConnection):
    """The worker's end of a connection to a gate."""

    gone = NodeLost
    ended = "the host of the sandbox ended"

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """See ``box.Wire``."""
        answer, data = await super().call({**header, "within": timeout_s}, payload, timeout_s=timeout_s + LATE)
        for said, error in (("lost", SandboxLost), ("over", NodeLost)):
            if said in answer:
                self.close(answer[said])
                raise error(answer[said])
        return answer, data


class ActorConnection:
    """The way by calls of the host's actor."""

    def __init__(self, host: Any, name: str, lease: str) -> None:
        self.alive = True
        self._host = host
        self._name = name
        self._lease = lease

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float) -> tuple[Any, bytes]:
        """See ``box.Wire``."""
        what = f"sandbox {self._name}: {header['op']}"
        if not self.alive:
            raise NodeLost(f"{what}: the lease is over")
        try:
            async with asyncio.timeout(timeout_s + LATE):
                answer, data = await self._host.pass_on.remote(self._lease, header, payload, timeout_s)
        except TimeoutError:
            raise NodeLost(f"{what}: its host did not answer for {timeout_s + LATE:g} s") from None
        except Exception as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, SandboxError) else classify(error, what)) from None
        return answer, data

    def close(self, why: str = "closed") -> None:
        """See ``box.Wire``."""
        if self.alive:
            self.alive = False
            self._host.release.remote(self._lease)


async def dial(gate: str, host: Any, name: str, lease: str) -> SocketConnection | ActorConnection:
    """The nearest way to a box that was just leased; ``gate`` is empty where the host is on another node.

    Raises:
        NodeLost: it ended meanwhile.
    """
    if gate:
        with contextlib.suppress(OSError):
            near = SocketConnection(name, *await asyncio.open_unix_connection(gate, limit=LIMIT))
            try:
                await near.send({"lease": lease})
                await near.call({"op": "ping"}, timeout_s=LATE)
            except OSError:
                near.close()
                raise NodeLost(f"sandbox {name}: {near.ended}") from None
            return near
    far = ActorConnection(host, name, lease)
    await far.call({"op": "ping"}, timeout_s=LATE)
    return far
