"""A model behind an OpenAI-compatible chat API: evaluated, but not trained, because the API returns no token ids."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Limit, Message
from ..errors import ContextOutgrown, HorizonReached
from ..rollout.player import PastTurn, PlayerTurn
from .chat_api import ChatApi
from .policy import refuse_images


def chat_server(url: str, temperature: float, timeout_s: float, api_key_env: str = "") -> ChatApi:
    """Return an OpenAI-compatible server as a policy, whose players share it; close it in the event loop of its use.

    The numbers of requests and connections are unbounded here: the caller bounds the number of episodes.

    Args:
        url: that of ``ChatApi``, and optionally ``#`` and the model's name.
        timeout_s: per turn.

    Raises:
        TurnwiseError: the server cannot be used; see ``ChatApi``.
    """
    base, _, model = url.partition("#")
    options = {"temperature": temperature, **({"model": model} if model else {})}
    return ChatApi(base, "the policy", timeout_s, api_key_env, options=options)


class ChatPlayer:
    """One episode of the model behind a server. It is not trainable: the server returns text without token ids."""

    def __init__(self, server: ChatApi, system: str) -> None:
        self._server = server
        self._messages = [{"role": "system", "content": system}] if system else []

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Return the server's next message.

        Raises:
            HorizonReached: the conversation no longer fits the model's context.
            PolicyFailed: the model returned no text.
            EngineFailed: the server failed, or sent no answer within the timeout.
            ImagesUnsupported: the observation contains images.
        """
        refuse_images(images)
        self._messages.append({"role": "user", "content": observation})
        try:
            text = await self._server.text(self._messages)
        except ContextOutgrown as error:
            raise HorizonReached(f"the limit on context was reached: {error}", Limit.CONTEXT) from error
        self._messages.append({"role": "assistant", "content": text})
        return PlayerTurn(text)

    def remember(self, turns: Sequence[PastTurn]) -> Sequence[Sequence[Message]]:
        """Add turns of another player to the history, as messages of the model."""
        for turn in turns:
            refuse_images(turn.images)
            self._messages.append({"role": "user", "content": turn.observation})
            self._messages.append({"role": "assistant", "content": turn.action})
        return [[] for _ in turns]

    def patch(self, text: str) -> Sequence[Message]:
        """Replace the last message of the model in the history."""
        self._messages[-1] = {"role": "assistant", "content": text}
        return []

    def close(self) -> None:
        """Do nothing: the server owns the connections."""
