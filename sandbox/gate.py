"""How a worker reaches the sandboxes that a host holds: frames for the step server, passed on by the host.

On the same node they go through the host's ``Gate``, a unix socket in a folder of its user's own. A connection is one
lease, so whatever becomes of the worker, its end is the lease's. From elsewhere, or where the socket is out of sight
(in another container), they go as calls of the Ray actor, each of which costs some milliseconds more.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .box import Box
from .errors import HostLost, SandboxError, SandboxLost, classify
from .link import LIMIT, Link

LATE = 15.0
"""Seconds beyond a request's own deadline after which the host itself must be gone."""


class Gate:
    """A host's socket for the workers of its node. Of one event loop."""

    def __init__(self, leased: Callable[[str], Box | None], over: Callable[[str], None]) -> None:
        """``leased`` finds a box that is leased; ``over`` ends its lease."""
        self._leased = leased
        self._over = over
        self._server: asyncio.AbstractServer | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="tw-gate-"))
        self.path = self._folder / "gate"

    async def open(self) -> "Gate":
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=LIMIT)
        return self

    def close(self) -> None:
        """Hear no more."""
        if self._server is not None:
            self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        worker = Link("gate", reader, writer)
        name = ""
        try:
            name = str((await worker.receive())[0]["box"])
            while True:
                header, payload = await worker.receive()
                try:
                    answer = await pass_on(self._leased(name), header, payload, header.pop("within"))
                except SandboxError as error:
                    answer = {"lost": str(error)}, b""
                await worker.send(*answer)
        except (OSError, EOFError, ValueError, LookupError):
            pass
        finally:
            worker.close()
            self._over(name)


async def pass_on(box: Box | None, header: dict[str, Any], payload: bytes, deadline: float) -> tuple[Any, bytes]:
    """Have a leased box's step server answer. Raises SandboxLost."""
    if box is None:
        raise SandboxLost("the lease is over")
    return await box.link.call(header, payload, deadline=deadline)


class Near(Link):
    """The worker's end of a connection to a gate."""

    gone = HostLost
    ended = "the host of the sandbox ended"

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, deadline: float) -> tuple[Any, bytes]:
        """See ``box.Wire``."""
        answer, data = await super().call({**header, "within": deadline}, payload, deadline=deadline + LATE)
        if "lost" in answer:
            self.close(answer["lost"])
            raise SandboxLost(answer["lost"])
        return answer, data


class Far:
    """The way by calls of the host's actor."""

    def __init__(self, host: Any, name: str) -> None:
        self.alive = True
        self._host = host
        self._name = name

    async def call(self, header: dict[str, Any], payload: bytes = b"", *, deadline: float) -> tuple[Any, bytes]:
        """See ``box.Wire``."""
        what = f"sandbox {self._name}: {header['op']}"
        try:
            async with asyncio.timeout(deadline + LATE):
                answer, data = await self._host.pass_on.remote(self._name, header, payload, deadline)
        except TimeoutError:
            raise HostLost(f"{what}: its host did not answer for {deadline + LATE:g} s") from None
        except Exception as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, SandboxError) else classify(error, what)) from None
        return answer, data

    def close(self, why: str = "closed") -> None:
        """See ``box.Wire``."""
        if self.alive:
            self.alive = False
            self._host.give_back.remote(self._name)


async def dial(gate: str, host: Any, name: str) -> Near | Far:
    """The nearest way to a box that was just leased; ``gate`` is empty where the host is on another node."""
    if gate:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_unix_connection(gate, limit=LIMIT)
            near = Near(name, reader, writer)
            await near.send({"box": name})
            return near
    return Far(host, name)
