"""Conversations with a scripted server through the client of chat APIs."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from turnwise.agents.players.chat_api.client import ChatApi
from turnwise.tests.agents.servers import Response, scripted

FIRST = ({"role": "user", "content": "a page"},)
LATER = (*FIRST, {"role": "assistant", "content": "back"}, {"role": "user", "content": "another page"})


def choice(message: Any, finish_reason: str | None = "stop") -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]}).encode()


def asked(
    respond: Callable[[int, dict[str, Any]], Response], messages: Any = FIRST, timeout_s: float = 5, **options: Any
) -> str:
    async def main(url: str) -> str:
        api = ChatApi(url, "the policy", timeout_s, **options)
        try:
            return await api.text(messages)
        finally:
            await api.close()

    with scripted(respond) as url:
        return asyncio.run(main(url))


def always(status: int, body: bytes | dict[str, Any], **headers: str) -> Callable[[int, dict[str, Any]], Response]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda number, request: (status, {name.replace("_", "-"): value for name, value in headers.items()}, content)
