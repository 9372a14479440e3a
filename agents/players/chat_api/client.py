"""One server with an OpenAI-compatible chat API: requests, repetitions, and errors by their cause.

Proxies and certificates are those that the environment variables name, as ``httpx`` reads them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
from ipaddress import ip_address
from pathlib import Path
from random import uniform
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.request import getproxies_environment, proxy_bypass

from ....errors import TurnwiseError
from ....masking import scrubbed, without_secrets
from ...errors import AnswerLate, ContextOutgrown, EngineFailed, PolicyFailed
from .rejection import Rejection, requested_wait_s, wait_in_words
from .response import NotACompletion, completion_text, error_in, parse, server_error, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

MAX_BODY_BYTES = 2**24
"""Limit on a response, in bytes; a longer one is not read to its end."""
MAX_READ_CHARS = 2000
"""Limit on the message of an error that is searched for its cause, in characters."""
MAX_REPETITIONS = 2
"""Repetitions of a request whose connection failed or whose response is no chat completion, per text."""
CONNECT_TIMEOUT_S = 10.0
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 15.0
"""Pause before a request is repeated to a server that names none, or a shorter one; it doubles up to the maximum."""
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
PATH = "/chat/completions"


class ChatApi:
    """A server. All its users share one HTTP client, which keeps connections open between requests.

    An instance belongs to the event loop that first uses it; ``close`` it there.
    """

    def __init__(
        self,
        url: str,
        owner: str,
        timeout_s: float,
        api_key_env: str = "",
        max_connections: int | None = None,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Prepare the client; nothing is sent.

        Args:
            url: base URL, ``http://[user:password@]host:port/v1``. A user and a password are sent as basic
                authentication. Errors contain neither them nor secrets of the query.
            owner: the option or key that holds the URL, for errors.
            timeout_s: limit for each text, repetitions included.
            api_key_env: name of the environment variable with a key that is sent as a bearer token.
            max_connections: limit on connections; None for none.
            options: further keys of every request.

        Raises:
            TurnwiseError: ``url`` is not a URL, the variable is not set, or the variable of
                a proxy or of certificates cannot be used.
        """
        named = f"{owner} `{without_secrets(url)}`"
        import httpx

        try:
            given = httpx.URL(url)
        except httpx.InvalidURL:
            # The cause is dropped: it may quote a part of the password.
            given = httpx.URL()
        if given.scheme not in ("http", "https") or not given.host or not 0 <= (given.port or 0) < 2**16:
            raise TurnwiseError(
                f"{named} is not a URL; write http://HOST:PORT/v1, and percent-encode `@`, `:`, `/` and `#` "
                "in a password"
            )
        path = given.path.rstrip("/")
        self._url = given.copy_with(userinfo=b"", path=path if path.endswith(PATH) else path + PATH)
        self._shown = without_secrets(str(self._url))
        self._timeout_s = timeout_s
        self._options = options
        key = _key(api_key_env, owner)
        self._secrets = [one for one in (key, given.password) if one]
        if key and given.userinfo:
            raise TurnwiseError(f"{named} has a user and a password, and `{api_key_env}` a key; give one of them")
        self._proxy = named_proxy(given.scheme, given.host)
        self._failures = (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError)
        self._connection_failures = (httpx.TransportError,)
        self._http = self._client(named, given, key, max_connections)

    def _client(self, named: str, given: httpx.URL, key: str, max_connections: int | None) -> httpx.AsyncClient:
        """Create the HTTP client. Raises TurnwiseError if a proxy or certificates of the environment cannot be used."""
        import httpx

        is_local = is_loopback(given.host)
        if not is_local and (problem := certificate_problem(given.scheme)):
            raise TurnwiseError(f"{named}: {problem}")
        try:
            return httpx.AsyncClient(
                auth=httpx.BasicAuth(given.username, given.password) if given.userinfo else None,
                headers={"Authorization": f"Bearer {key}"} if key else {},
                timeout=httpx.Timeout(None, connect=min(CONNECT_TIMEOUT_S, self._timeout_s)),
                limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
                trust_env=not is_local,
                # Without TLS and proxies there is nothing to verify, and to load certificates takes 30 ms.
                verify=given.scheme == "https" or not is_local,
            )
        except (ImportError, ValueError, TypeError, OSError, httpx.InvalidURL) as error:
            what = self._proxy or "the proxies of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`"
            reason = scrubbed(str(error))
            if isinstance(error, ImportError):
                reason = "a SOCKS proxy needs `pip install 'httpx[socks]'`"
            raise TurnwiseError(
                f"{named}: {what} cannot be used: {reason}. Correct the variable, or add `{given.host}` to `NO_PROXY`"
            ) from None

    async def text(self, messages: Sequence[Mapping[str, str]], **options: object) -> str:
        """Return the server's next message; ``options`` are further keys of the request.

        The request is repeated, within the timeout, if the server asks to wait, the connection fails or the response is
        no chat completion. A server that rejects a conversation after its first turn rejects the turns in it: that is a
        failure of the policy, unless the server names another cause.

        Raises:
            ContextOutgrown: the conversation no longer fits the model's context.
            AnswerLate: there is no complete answer within the timeout.
            PolicyFailed: the model returned no text, or the server rejects the turns of the conversation.
            EngineFailed: the server cannot be reached, failed, or asks to wait longer than the timeout allows.
            CancelledError: the caller was cancelled; the cause is an ``EngineFailed`` if an earlier try failed.
        """
        returned: list[str] = []
        try:
            return await self._text(messages, {**self._options, **options}, returned)
        except asyncio.CancelledError:
            if returned:
                raise asyncio.CancelledError from self._failed(f"no answer yet; before, it returned {returned[-1]}")
            raise

    async def _text(
        self, messages: Sequence[Mapping[str, str]], options: Mapping[str, object], returned: list[str]
    ) -> str:
        """Return the next message as ``text`` does; ``returned`` gets the reason of every repetition."""
        ends = monotonic() + self._timeout_s
        waiting = f"the model sent no complete answer within {self._timeout_s:g} s"
        begun = any(message["role"] == "assistant" for message in messages)
        repetitions, pause_s = 0, FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(ends - monotonic()):
                    status, headers, body = await self._post({"messages": messages, "stream": False, **options})
            except TimeoutError:
                if returned:
                    before = f"before, it returned {returned[-1]}"
                    raise self._failed(f"no answer within {self._timeout_s:g} s; {before}") from None
                raise AnswerLate(f"{self._shown}: {waiting}") from None
            except self._failures as error:
                returned.append(f"{type(error).__name__}: {error}")
                if not isinstance(error, self._connection_failures) or repetitions == MAX_REPETITIONS:
                    answered = self._clean(returned[-1] + self._through())
                    raise EngineFailed(f"{self._shown} did not answer: {answered}") from None
                repetitions += 1
                wait_s = None
            else:
                try:
                    rejection = self._rejection(status, headers, body, begun)
                    if rejection is None:
                        return self._completion(body)
                    returned.append(str(rejection))
                    wait_s = rejection.wait_s
                except NotACompletion as error:
                    returned.append(f"no message: {error}")
                    if repetitions == MAX_REPETITIONS:
                        raise self._failed(returned[-1]) from None
                    repetitions += 1
                    wait_s = None
            if wait_s is None or wait_s < FIRST_PAUSE_S:
                wait_s = pause_s * uniform(1, 1.5)  # noqa: S311 - spreads the load
            if wait_s >= ends - monotonic():
                left = max(0.0, ends - monotonic())
                raise self._failed(
                    f"{returned[-1]}; the next try is {wait_in_words(wait_s)} away, and {left:.0f} s of the timeout of "
                    f"{self._timeout_s:g} s are left"
                )
            pause_s = min(2 * pause_s, MAX_PAUSE_S)
            await asyncio.sleep(wait_s)

    async def _post(self, body: Mapping[str, object]) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request; return the status, the headers and at most ``MAX_BODY_BYTES`` of the body and one more."""
        content = bytearray()
        sent = json.dumps(body, ensure_ascii=False).encode(errors="replace")  # an observation may hold lone surrogates
        async with self._http.stream("POST", self._url, content=sent, headers=JSON) as response:
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MAX_BODY_BYTES:
                    break
            return response.status_code, response.headers, bytes(content[: MAX_BODY_BYTES + 1])

    def _rejection(self, status: int, headers: Mapping[str, str], body: bytes, begun: bool) -> Rejection | None:
        """Return a rejection after which the request may be repeated; None for a completion.

        Raises:
            ContextOutgrown, PolicyFailed, EngineFailed: the request need not be repeated.
        """
        try:
            value = parse(body)
        except NotACompletion:
            value = None
        error = error_in(value)
        if 200 <= status < 300 and error is None:
            return None
        message, code, kind = server_error(value if error is None else error)
        if 200 <= status < 300 and re.fullmatch(r"[1-5]\d\d", code):
            status = int(code)  # some routers return an error with the status 200 and put the status into its code
        text = shown((message or body.decode(errors="replace")).encode(errors="replace"), MAX_READ_CHARS)
        found = Rejection(status, self._clean(text), code, kind, requested_wait_s(headers, text))
        if found.outgrown:
            raise ContextOutgrown(f"{self._shown}: the conversation no longer fits the model's context ({found})")
        if found.filtered:
            raise PolicyFailed(f"{self._shown} rejected the conversation by a filter ({found})")
        if found.temporary:
            return found
        if 300 <= status < 400:
            raise self._failed(f"no message: {found}; it redirects to `{headers.get('location', '')}`")
        if begun and found.of_turns:
            raise PolicyFailed(f"{self._shown} rejected the conversation after its first turn ({found})")
        raise self._failed(f"no message: {found}{self._through() if status in (403, 407, 502) else ''}")

    def _completion(self, body: bytes) -> str:
        """Return the text of a successful response. Raises PolicyFailed or NotACompletion."""
        try:
            if len(body) > MAX_BODY_BYTES:
                raise PolicyFailed(f"the response is longer than {MAX_BODY_BYTES:,} bytes")
            return completion_text(parse(body))
        except PolicyFailed as error:
            raise type(error)(f"{self._shown}: {self._clean(str(error))}") from None

    def _failed(self, reason: str) -> EngineFailed:
        return EngineFailed(f"{self._shown} returned {self._clean(reason)}")

    def _through(self) -> str:
        return f" (through {self._proxy})" if self._proxy else ""

    def _clean(self, text: str) -> str:
        """Return the server's words without secrets, which a server may repeat."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return scrubbed(text)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def _key(variable: str, owner: str) -> str:
    """Return the key in an environment variable; empty without a variable. Errors do not contain it.

    Raises:
        TurnwiseError: the variable is not set, or its value cannot be sent in a header.
    """
    if not variable:
        return ""
    key = os.environ.get(variable, "").strip()
    if not key:
        raise TurnwiseError(f"the key of {owner}: the environment variable `{variable}` is not set, or is empty")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise TurnwiseError(f"the key of {owner}: `{variable}` has a space, a line break or a character beyond ASCII")
    return key


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, which no proxy leads to."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def named_proxy(scheme: str, host: str) -> str:
    """Return the proxy for a server and the variable that names it, for a message; empty if there is none."""
    if is_loopback(host) or proxy_bypass(host):
        return ""
    proxies = getproxies_environment()
    kind = scheme if proxies.get(scheme) else "all"
    if not (url := proxies.get(kind)):
        return ""
    names = [name for name in (f"{kind}_proxy", f"{kind.upper()}_PROXY") if os.environ.get(name)]
    return f"the proxy `{without_secrets(url)}` of `{names[0] if names else f'{kind}_proxy'}`"


def certificate_problem(scheme: str) -> str:
    """Return why the named certificates cannot be used, and the remedy; empty if none are named or they can.

    ``SSL_CERT_FILE`` comes first; ``SSL_CERT_DIR`` is read without it. ``httpx`` loads the file for a server of any
    scheme, and looks for certificates in the folders only when it connects with TLS.
    """
    name = "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "SSL_CERT_DIR"
    value, reason = os.environ.get(name, ""), ""
    if not value:
        return ""
    if name == "SSL_CERT_DIR":
        if scheme == "https" and not any(Path(part).is_dir() for part in value.split(os.pathsep)):
            reason = "is no folder"
    elif not Path(value).is_file():
        reason = "is no file"
    else:
        try:
            ssl.create_default_context(cafile=value)
        except (OSError, ValueError) as error:  # `ssl.SSLError` is an `OSError`
            reason = f"cannot be read as certificates: {error}"
    return f"`{value}` of `{name}` {reason}. Correct the variable, or unset it" if reason else ""
