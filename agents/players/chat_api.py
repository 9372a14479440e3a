"""One server with an OpenAI-compatible chat API, which the player of ``turnwise eval`` and the judge share.

The package ``openai`` sends the requests, and repeats them as ``Retry-After`` asks. Proxies and certificates are those
that the environment variables name.

Invariant: a request ends with a text of the model, or with an error that names its cause:

* ``PolicyFailed``: the model answered without a text, or a filter rejected the conversation. A success rate counts the
  episode.
* ``ContextOutgrown``: the conversation no longer fits. The episode is truncated, and a success rate counts it.
* ``EngineFailed``: the server failed, answered too late (its queue may be long), or rejected a request for a cause that
  ``CAUSES`` does not have. No success rate counts the episode.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...base.masking import scrubbed, without_secrets
from ...errors import TurnwiseError
from ..errors import ContextOutgrown, EngineFailed, ModelRefused, PolicyFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx2

CAUSES: Mapping[object, type[TurnwiseError]] = {
    413: ContextOutgrown,
    "context_length_exceeded": ContextOutgrown,
    "exceed_context_size_error": ContextOutgrown,  # llama.cpp
    "input_text": ContextOutgrown,  # the parameter that vLLM names
    "input_tokens": ContextOutgrown,
    "content_filter": PolicyFailed,
    "content_policy_violation": PolicyFailed,
    "authentication_error": EngineFailed,
    "insufficient_quota": EngineFailed,
    "invalid_api_key": EngineFailed,
}
"""Causes of a rejection by its status, or by the code, type or parameter that its error names. The first one counts."""
ABORTED = frozenset({"error", "abort", "aborted"})
"""Values of ``finish_reason`` after a fault of the server."""
MAX_RETRIES = 4
"""Retries after a failed connection and after the statuses 408, 409, 429 and 5xx, per text."""
CONNECT_TIMEOUT_S = 10.0
MAX_READ_CHARS = 2000
"""Limit on a server's text that is searched for secrets, in characters."""
MIN_SECRET_CHARS = 6
"""Least length of a user or of a value of the query in a URL that is hidden, in characters."""
MAX_SHOWN_CHARS = 300
"""Limit on a server's text in an error, in characters."""
PATH = "/chat/completions"
FAILED_TRIES: ContextVar[list[str]] = ContextVar("FAILED_TRIES")
"""Reasons of the failed tries of the current text."""


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
            timeout_s: limit for each text, retries included.
            api_key_env: name of the environment variable with a key that is sent as a bearer token.
            max_connections: limit on connections; None for none.
            options: further keys of every request.

        Raises:
            TurnwiseError: ``url`` is not a URL, the variable is not set, or a variable of the proxy or of certificates
                cannot be used.
        """
        import httpx2
        import openai

        named = f"{owner} `{without_secrets(url)}`"
        try:
            given = httpx2.URL(url)
        except httpx2.InvalidURL:
            # The cause is dropped: it may quote a part of the password.
            given = httpx2.URL()
        if given.scheme not in ("http", "https") or not given.host or not 0 <= (given.port or 0) < 2**16:
            raise TurnwiseError(
                f"{named} is not a URL; write http://HOST:PORT/v1, and percent-encode `@`, `:`, `/` and `#` "
                "in a password"
            )
        key = _key(api_key_env, owner)
        if key and given.userinfo:
            raise TurnwiseError(f"{named} has a user and a password, and `{api_key_env}` a key; give one of them")
        base = given.copy_with(path=given.path.rstrip("/").removesuffix(PATH), query=None)
        self._shown = without_secrets(str(given.copy_with(userinfo=b"", path=base.path.rstrip("/") + PATH)))
        self._timeout_s = timeout_s
        self._options = options
        # The user of a URL may be a token, and a value of its query a key; a shorter one than this is a word.
        named_ones = [one for one in (given.username, *given.params.values()) if len(one) >= MIN_SECRET_CHARS]
        self._secrets = [one for one in (key, given.password, *named_ones) if one]
        try:
            http = _http_client(
                limits=httpx2.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
                trust_env=given.host not in ("localhost", "127.0.0.1", "::1"),
                follow_redirects=False,
            )
        except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
            raise TurnwiseError(
                f"{named}: no connection can be made: {scrubbed(str(error))}; check the variables `HTTP_PROXY`, "
                "`HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE` and `SSL_CERT_DIR`"
            ) from None
        # `OPENAI_ORG_ID`, `OPENAI_PROJECT_ID` and `OPENAI_API_KEY` belong to another server.
        left_out = ("OpenAI-Organization", "OpenAI-Project", *(() if key else ("Authorization",)))
        self._headers: dict[str, str | openai.Omit] = {name: openai.Omit() for name in left_out}
        self._client = openai.AsyncOpenAI(
            api_key=key or "none",
            base_url=base,
            default_query=dict(given.params),
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            max_retries=MAX_RETRIES,
            http_client=http,
        )

    async def text(self, messages: Sequence[Mapping[str, str]], **options: object) -> str:
        """Return the server's next message; ``options`` are further keys of the request.

        Raises:
            ContextOutgrown: the conversation no longer fits the model's context.
            PolicyFailed: the model returned no text, or a filter of the server rejected the conversation.
            EngineFailed: the server cannot be reached, failed, sent no complete answer within the timeout, or rejected
                the request for another cause.
            CancelledError: the caller was cancelled; the cause is an ``EngineFailed``.
        """
        failed: list[str] = []
        FAILED_TRIES.set(failed)
        # An observation may hold lone surrogates.
        sent = [{key: one.encode(errors="replace").decode() for key, one in message.items()} for message in messages]
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._text({"messages": sent, "stream": False, **self._options, **options}, failed)
        except TimeoutError:
            late = EngineFailed(f"sent no complete answer within {self._timeout_s:g} s{_before(failed)}")
            raise self._named(late) from None
        except asyncio.CancelledError:
            raise asyncio.CancelledError from self._named(EngineFailed(f"returned no answer yet{_before(failed)}"))
        except TurnwiseError as error:
            raise self._named(error) from None

    async def _text(self, body: Mapping[str, Any], failed: Sequence[str]) -> str:
        import openai
        from openai.types.chat import ChatCompletion

        try:
            answer = await self._client.post(
                PATH, cast_to=ChatCompletion, body=body, options={"headers": self._headers}
            )
        except openai.APIStatusError as error:
            raise _rejection(error.status_code, error.body) from None
        except (openai.OpenAIError, ValueError, RecursionError, OSError) as error:
            reason = failed[-1] if failed else f"{type(error).__name__}: {error}"
            raise EngineFailed(f"did not answer: {reason}") from None
        if fault := getattr(answer, "error", None):
            raise _rejection(200, fault)  # some routers return an error with this status
        return _completion_text(answer)

    def _named(self, error: TurnwiseError) -> TurnwiseError:
        """Return an error with the URL, on one line and without secrets, which a server may repeat."""
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return type(error)(f"{self._shown} {_shown(scrubbed(text))}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _http_client(**settings: Any) -> httpx2.AsyncClient:
    """Return an HTTP client that records failed tries in ``FAILED_TRIES``; the retries of ``openai`` hide them."""
    import httpx2

    class Recording(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            try:
                response = await super().send(request, **options)
            except httpx2.HTTPError as error:
                FAILED_TRIES.get().append(f"{type(error).__name__}: {error}")
                raise
            if response.is_error:
                FAILED_TRIES.get().append(f"status {response.status_code}: {response.text[:MAX_READ_CHARS]}")
            return response

    return Recording(**settings)


def _before(failed: Sequence[str]) -> str:
    """Return the end of a message that names the last failed try, if there is one."""
    return f"; before, it returned {failed[-1]}" if failed else ""


def _rejection(status: int, error: object) -> TurnwiseError:
    """Return the error for a rejection with a status and the ``error`` of its body."""
    fields: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error}
    message = fields.get("message") or fields
    named = [status, *(str(fields.get(key)) for key in ("code", "type", "param"))]
    cause = next((CAUSES[one] for one in named if one in CAUSES), EngineFailed)
    what = {ContextOutgrown: "rejected the conversation as too long", PolicyFailed: "rejected the conversation"}
    return cause(f"{what.get(cause, 'returned no message')} (status {status}: {str(message)[:MAX_READ_CHARS]})")


def _completion_text(answer: Any) -> str:
    """Return the text of the first choice of a chat completion. An empty text is a text: an empty action.

    Raises:
        EngineFailed: the answer is not a chat completion, or a fault of the server ended it.
        PolicyFailed: it has no text, only a refusal, tool calls, reasoning or nothing; the message contains
            ``finish_reason``.
    """
    from openai.types.chat import ChatCompletionMessage

    choices = getattr(answer, "choices", None)
    choice = choices[0] if isinstance(choices, list) and choices else None
    if fault := getattr(choice, "error", None):
        raise _rejection(200, fault)
    ended, message = getattr(choice, "finish_reason", None), getattr(choice, "message", None)
    if not isinstance(message, ChatCompletionMessage):
        raise EngineFailed(f"returned no chat completion: {str(answer)[:MAX_READ_CHARS]}")
    if ended in ABORTED:
        raise EngineFailed(f"did not complete the text: `finish_reason` {ended!r}")
    text: Any = message.content
    if isinstance(text, list) and all(isinstance(part, Mapping) for part in text):
        parts = [part.get("text") for part in text if part.get("type") == "text"]  # reasoning is not the model's answer
        text = "".join(parts) or None if all(isinstance(part, str) for part in parts) else text
    called = message.tool_calls or message.function_call
    if text is None or (called and not text):
        kind = ModelRefused if message.refusal else PolicyFailed
        raise kind(f"returned no text (`finish_reason` {ended!r}): {_instead(message, called)}")
    if not isinstance(text, str):
        raise EngineFailed(f"returned no chat completion: `content` is {text!r}")
    return text


def _instead(message: Any, called: object) -> str:
    """Return a message's parts other than its text, in words."""
    if message.refusal:
        return f"it refused: {message.refusal}"
    if called:
        return "it called a tool, and the request offers none"
    if getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None):
        return "it returned reasoning only; raise the server's limit on tokens"
    return "`content` is null"


def _shown(text: str) -> str:
    """Return the beginning of a text on one line."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 1] + "…"


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
