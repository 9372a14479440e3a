"""The server of the viewer: its socket, its token, and the address to open."""

import asyncio
import gc
import os
import secrets
import socket
from collections.abc import Callable
from time import sleep

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ...errors import TurnwiseError
from ...store.database import Database
from .application import application
from .security import LOOPBACK, Door, is_address

SHUTDOWN_TIMEOUT_S = 1
"""Seconds after Ctrl-C until the connections of live pages are closed."""
REQUEST_TIMEOUT_S = 10.0
"""Seconds in which a connection has to send the head of a request, the first and each after a response."""
CONNECTIONS_MAX = 500
"""A live page takes two."""
GC_THRESHOLD = (50_000, 20, 100)
"""A full collection stops every page for a sixth of a second once the modules of tokenizers are loaded, and pages leave
few cycles."""


class CannotListen(TurnwiseError):
    """The host or the port cannot be used."""


def serve(
    database: Database, host: str, port: int, home: str, report: Callable[[str], None], *, notice: str = ""
) -> None:
    """Serve a store until Ctrl-C; ``report`` receives the address to open.

    Args:
        home: the page to open first.
        notice: a sentence on every page.

    Raises:
        CannotListen: the port is taken, or the host is not one of this machine.
    """
    token = os.environ.get("TURNWISE_VIEW_TOKEN") or secrets.token_urlsafe(24)
    door = Door.of(host, token)
    with listening(host, port, home) as listener:
        address = address_of(host, listener.getsockname()[1])
        config = configured(_Ending(application(database, door, home=home, notice=notice)))
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        report(with_token(address + home, door.token))
        _Server(config).run(sockets=[listener])
        sleep(SHUTDOWN_TIMEOUT_S)  # after a signal, the thread of ``trainer.shutdown`` ends the process with its code


def with_token(address: str, token: str | None) -> str:
    """Return an address of a page with the token that opens it."""
    page, hash_, place = address.partition("#")
    return address if token is None else f"{page}{'&' if '?' in page else '?'}token={token}{hash_}{place}"


def address_of(host: str, port: int) -> str:
    """Return the address to open on this machine; ``localhost`` may be IPv4, and a server on ``::`` is not."""
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only
    return f"http://[{here}]:{port}" if ":" in here else f"http://{here}:{port}"


def configured(app: ASGIApp) -> uvicorn.Config:
    """Return the settings of the server of an application."""
    return uvicorn.Config(
        app,
        http=_Connection,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT_S,
    )


class _Connection(H11Protocol):
    """Ends if no request begins within ``REQUEST_TIMEOUT_S``, or if others need the place of one without a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) >= CONNECTIONS_MAX:
            for one in list(self.connections):
                if one is not self and isinstance(one, _Connection) and one._is_idle():
                    one.transport.close()
        self.loop.call_later(REQUEST_TIMEOUT_S, self._end_if_idle, None)

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _end_if_idle(self, before: RequestResponseCycle | None) -> None:
        """Close the connection if it has no request, and the newest one is still that of a check before."""
        if self._is_idle() and self.cycle is before:
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(REQUEST_TIMEOUT_S, self._end_if_idle, self.cycle)


class _Ending:
    """Ends the streams of an application once ``stopped`` is set, as if their readers had left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.stopped = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_or_stop() -> Message:
            waiting = [asyncio.ensure_future(receive()), asyncio.ensure_future(self.stopped.wait())]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                received = waiting[0]
                return received.result() if received.done() else {"type": "http.disconnect"}  # type: ignore[return-value]
            finally:
                for one in waiting:
                    one.cancel()

        is_whole = False

        async def sending(message: Message) -> None:
            nonlocal is_whole
            is_whole = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        await self._app(scope, receive_or_stop, sending)
        if self.stopped.is_set() and not is_whole:
            await send({"type": "http.response.body", "body": b""})


class _Server(uvicorn.Server):
    """Ends the streams before it waits for the requests that are under way."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        assert isinstance(app, _Ending)  # noqa: S101 - ``serve`` made it
        app.stopped.set()
        await super().shutdown(sockets)


def listening(host: str, port: int, home: str = "") -> socket.socket:
    """Return a socket that listens. Raises CannotListen, naming the page `home` of a viewer that has the port."""
    if host not in LOOPBACK and not is_address(host):
        raise CannotListen(
            f"`--host {host[:80]}` is not an IP address: write one of this machine's, or `0.0.0.0` for all"
        )
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise CannotListen(
            f"the viewer cannot listen on port {port} of {host}: {error.strerror or error}; choose another with "
            f"`--port`, or `--port 0` for a free one; where a viewer runs there, it has {address_of(host, port)}{home}"
        ) from error
