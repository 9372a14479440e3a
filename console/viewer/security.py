"""The door of the viewer: which requests are served, and the headers of every response.

* Only GET and HEAD: nothing is changed through the viewer.
* ``Host`` must name this server: a page of another site whose name was rebound to this address is refused.
* A request of another site's page is refused, except for the click on a link.
* On another host than loopback, a token is needed: once in the URL, then in a cookie, or as a bearer token.
* Pages run no inline script or style, are shown in no frame, and load nothing from elsewhere.
"""

import hmac
import ipaddress
import socket
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
ANY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared only
COOKIE = "turnwise_view_{port}"
"""A browser sends a cookie to every port of a host, so each viewer has its own."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True, slots=True)
class Door:
    """The hosts by which the viewer may be called, and the token that a request needs."""

    hosts: Collection[str]
    token: str | None
    any_address: bool = False
    """Whether any address of the network names this server too."""

    @classmethod
    def of(cls, host: str, token: str) -> "Door":
        """Return the door of a server that listens on ``host``; on loopback, no token is needed."""
        if host in LOOPBACK:
            return cls(LOOPBACK, None)
        if host in ANY_HOST:
            return cls(LOOPBACK | {socket.gethostname().lower(), socket.getfqdn().lower()}, token, any_address=True)
        return cls(LOOPBACK | {host.lower()}, token)

    def admits(self, host: str) -> bool:
        """Return whether the ``Host`` of a request, without its port, names this server."""
        return host in self.hosts or (self.any_address and is_address(host))


class Guard:
    """Wraps the application: refuses a request before any page sees it, and adds the headers."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._refusal(Request(scope))
        await (answer or self._app)(scope, receive, sending)

    def _refusal(self, request: Request) -> Response | None:
        """Return the response to a request that no page may see; None if it is served."""
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("the viewer is read-only\n", 405, {"Allow": "GET, HEAD"})
        host = _hostname(request.headers.get("host", ""))
        if host is None or not self._door.admits(host):
            return PlainTextResponse("this server has another name: use the address that it printed\n", 421)
        if _is_foreign(request.headers):
            return PlainTextResponse("a page of another site may not read this one\n", 403)
        return None if self._door.token is None else self._without_token(request, self._door.token)

    def _without_token(self, request: Request, token: str) -> Response | None:
        """Return the response to a request without the token; None if it has the token."""
        cookie = COOKIE.format(port=request.url.port or 80)
        query = parse_qsl(request.url.query, keep_blank_values=True)
        if any(name == "token" and hmac.compare_digest(value.encode(), token.encode()) for name, value in query):
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            path = "/" + quote(request.scope["path"].lstrip("/"))  # two slashes would name another host
            answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            answer.set_cookie(cookie, token, httponly=True, samesite="lax")
            return answer
        sent = [cookie_parser(request.headers.get("cookie", "")).get(cookie, "")]
        sent.append(request.headers.get("authorization", "").removeprefix("Bearer "))
        if any(hmac.compare_digest(one.encode(), token.encode()) for one in sent):
            return None
        return PlainTextResponse("a token is needed: open the address that the viewer printed\n", 401)


def _is_foreign(headers: Headers) -> bool:
    """Return whether a page of another origin sent a request, and not by a click on a link."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        return True
    is_click = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_click


def _hostname(host: str) -> str | None:
    """Return the ``Host`` header without its port, in lower case; None if it names no host."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return None
    return parts.hostname if parts.hostname and parts.netloc == host and "@" not in host else None


def is_address(host: str) -> bool:
    """Return whether a host is written as an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
