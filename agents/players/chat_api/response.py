"""The text in the body of a chat completion, or the reason why it holds none. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...errors import ModelRefused, PolicyFailed

MAX_SHOWN_CHARS = 300
"""Limit on a server's text in an error, in characters."""
ABORTED = frozenset({"error", "abort", "aborted", "network_error", "insufficient_system_resource"})
"""Values of ``finish_reason`` after a fault of the server (OpenRouter, vLLM, SGLang, GLM, DeepSeek)."""


class NotACompletion(Exception):
    """The body is no chat completion: an HTML page, a stream, JSON of another shape, or a text that a fault cut."""


def parse(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        NotACompletion: the body is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NotACompletion(f"the response is not JSON: {shown(body)}") from None


def completion_text(value: Any) -> str:
    """Return the text of the first choice of a chat completion. An empty text is a text: an empty action.

    Raises:
        NotACompletion: the value is not a chat completion, or a fault of the server ended it.
        PolicyFailed: it has no text, only a refusal, tool calls, reasoning or nothing; the message contains
            ``finish_reason``.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("choices"), list):
        raise NotACompletion(f"the response is not a chat completion: {shown(json.dumps(value).encode())}")
    if not value["choices"]:
        raise PolicyFailed("the completion has no choices")
    choice = value["choices"][0]
    ended = choice.get("finish_reason") if isinstance(choice, Mapping) else None
    if isinstance(ended, str) and ended.lower() in ABORTED:
        raise NotACompletion(f"the server did not complete the text: `finish_reason` {ended!r}")
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        raise NotACompletion(f"the completion has no message: {shown(json.dumps(choice).encode())}")
    text, called = _text(message.get("content")), bool(message.get("tool_calls") or message.get("function_call"))
    if text is None or (called and not text):
        named = f"`finish_reason` {ended!r}" if isinstance(ended, str) else "no `finish_reason`"
        kind = ModelRefused if message.get("refusal") else PolicyFailed
        raise kind(f"the model returned no text ({named}): {_instead(message, called)}")
    return text


def _text(content: Any) -> str | None:
    """Return the text of a message's content, of all its parts if it is a list; None if it holds no text.

    Raises:
        NotACompletion: the content, or the text of a part, is of another type.
    """
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise NotACompletion(f"`content` is neither a text nor a list: {shown(json.dumps(content).encode())}")
    parts = [one.get("text") if isinstance(one, Mapping) else one for one in content if not _is_thought(one)]
    texts = [part for part in parts if part is not None]
    if odd := [text for text in texts if not isinstance(text, str)]:
        raise NotACompletion(f"a part of `content` has no text: {shown(json.dumps(odd[0]).encode())}")
    return "".join(texts) if texts else None


def _is_thought(part: Any) -> bool:
    """Return whether a part of a content is reasoning or a refusal, which is not the model's answer."""
    return isinstance(part, Mapping) and part.get("type") in ("reasoning", "thinking", "refusal")


def _instead(message: Mapping[str, Any], called: bool) -> str:
    """Return a message's parts other than its text, in words."""
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        return f"it refused: {shown(refusal.encode())}"
    if called:
        return "it called a tool, and the request offers none"
    if message.get("reasoning_content") or message.get("reasoning"):
        return "it returned reasoning only; raise the server's limit on tokens"
    return f"`content` is {shown(json.dumps(message.get('content')).encode())}"


def error_in(value: Any) -> Any:
    """Return the part of a body that holds an error; None for a body without one.

    Some routers return an error with the status 200, in the body, even next to an answer, or in the first
    choice; Gemini puts it into a list.
    """
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, Mapping):
        return None
    if value.get("error") or value.get("object") == "error":
        return value
    if not value.get("choices"):
        return None
    choice = value["choices"][0] if isinstance(value["choices"], list) else None
    return choice if isinstance(choice, Mapping) and choice.get("error") else None


def server_error(value: Any) -> tuple[str, str, str]:
    """Return the message, the code and the type in the JSON of a server's error, empty where they are missing.

    OpenAI and vLLM nest them in ``error``; TGI has a text there; FastAPI uses ``detail``; others ``message``.
    """
    if not isinstance(value, Mapping):
        return "", "", ""
    error = value.get("error")
    if isinstance(error, Mapping):
        kind = error.get("type") or error.get("status")
        return _words(error.get("message")), _words(error.get("code")), _words(kind)
    message = error or value.get("message") or _detail(value.get("detail")) or value.get("errors")
    return _words(message), _words(value.get("code")), _words(value.get("error_type") or value.get("type"))


def _detail(detail: Any) -> Any:
    """Return FastAPI's ``detail``; of a list, where each fault is and what it is, without the input that it repeats."""
    if not isinstance(detail, list) or not all(isinstance(one, Mapping) and "msg" in one for one in detail):
        return detail
    places = [one.get("loc") if isinstance(one.get("loc"), list) else [] for one in detail]
    return "; ".join(f"`{'.'.join(map(str, place))}`: {one['msg']}" for place, one in zip(places, detail, strict=True))


def _words(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def shown(body: bytes, max_chars: int = MAX_SHOWN_CHARS) -> str:
    """Return the beginning of a text of the server on one line."""
    text = " ".join(body[: 8 * max_chars].decode(errors="replace").split())
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
