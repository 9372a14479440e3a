"""The policy under training, which samples a thought before each action: two calls of the engine per turn.

The turn of such a player has four messages: the observation, the thought, a fixed text that requests the action, and
the action. The policy sampled the thought and the action, so both are trained on, with the advantage of the turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import ClassVar

from ...records import Message
from ..rollout.player import PlayerTurn, PolicyContext
from .policy import PolicyPlayer, refuse_images


class ThinkingPlayer(PolicyPlayer):
    """The policy with a thought of at most ``max_thought_tokens`` before each action, which ``request`` asks for."""

    answers_per_turn: ClassVar[int] = 2

    def __init__(self, context: PolicyContext, max_thought_tokens: int, request: str) -> None:
        super().__init__(context)
        self._max_thought_tokens = max_thought_tokens
        self._request = request

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Sample a thought and an action within the limits of the horizon; both calls share the timeout of the turn.

        Raises:
            HorizonReached: a limit leaves no token for the thought or for the action.
            EngineFailed: the engine returned no tokens.
            ImagesUnsupported: the observation contains images.
        """
        refuse_images(images)
        deadline = monotonic() + self._turn_timeout_s
        messages: list[Message] = []
        most = self._horizon.max_tokens_per_turn
        limit = min(self._max_thought_tokens, most - 1)
        thought = await self._answer(messages, observation, limit, self._turn_timeout_s, reserve=1)
        left_s = max(0.0, deadline - monotonic())
        action = await self._answer(messages, self._request, most - len(thought), left_s)
        return PlayerTurn(self._conversation.text(action), messages, len(thought) + len(action))
