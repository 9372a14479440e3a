"""The policy under training as a player: token ids in, token ids out; with or without a thought before each action.

The turn of a player with thoughts has four messages: the observation, the thought, a fixed text that requests the
action, and the action. The policy sampled the thought and the action, so both are trained on, with the advantage of the
turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, ClassVar, TypeAlias

from ...records import Limit, Message, Source
from ..engine.request import CUT
from ..errors import HorizonReached, ImagesUnsupported, PolicyFailed, too_long
from ..rollout.player import PastTurn, PlayerTurn, PolicyContext
from ..tokens.renderer import Image

Snapshot: TypeAlias = tuple[Mapping[str, Any], Mapping[str, bytes], Mapping[str, tuple[int, ...]], int]
"""The conversation, its images by hash, the sizes of all images so far, and the number of sampled tokens."""


def refuse_images(images: Sequence[bytes]) -> None:
    """Raise if an observation contains images, for a policy that reads text only.

    Raises:
        ImagesUnsupported: there is at least one image.
    """
    if images:
        raise ImagesUnsupported(
            f"the observation contains {len(images)} image{'s' if len(images) > 1 else ''}, and this policy reads text "
            "only. Choose an environment, or an option of it, whose observations are text"
        )


class PolicyPlayer:
    """The policy: sends token ids to the engine, and keeps the token ids, log-probabilities and versions that it
    returns."""

    answers_per_turn: ClassVar[int] = 1
    """Calls of the engine per turn."""

    def __init__(self, context: PolicyContext) -> None:
        self._client, self._session = context.client, context.session
        self._conversation, self._horizon = context.conversation, context.horizon
        self._turn_timeout_s, self._sampling = context.turn_timeout_s, context.sampling
        self._sampled_tokens = 0
        self._images: dict[str, bytes] = {}
        """The images in the context as PNG, by hash."""
        self._image_sizes: Mapping[str, tuple[int, ...]] = {}
        """``PlayerTurn.image_sizes``."""

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """Sample one turn within the limits of the horizon.

        Raises:
            HorizonReached: a limit leaves no token for this turn.
            EngineFailed: the engine returned no tokens.
            PolicyFailed: the model cannot read the observation.
            ImagesUnsupported: the observation contains images, and the model reads text only.
        """
        messages: list[Message] = []
        most = self._horizon.max_tokens_per_turn
        tokens, cut_by = await self._answer(messages, observation, images, most, self._turn_timeout_s)
        return PlayerTurn(self._conversation.text(tokens), messages, len(tokens), cut_by, self._image_sizes)

    async def _answer(
        self,
        messages: list[Message],
        text: str,
        images: Sequence[bytes],
        max_tokens: int,
        timeout_s: float,
        reserve: int = 0,
    ) -> tuple[Sequence[int], Limit | None]:
        """Sample an answer to ``text`` and ``images``, add both messages to ``messages``, and return the sampled token
        ids, and the limit that cut the answer; None if the policy ended it.

        Args:
            max_tokens: limit on the answer, besides the limits on the episode and on the context.
            reserve: tokens of the limit on the episode that the answer must leave.

        Raises:
            HorizonReached: a limit leaves no token for the answer.
            EngineFailed: the engine returned no tokens.
            PolicyFailed: the model cannot read the observation.
            ImagesUnsupported: there are images, and the model reads text only.
        """
        question = self._observe(text, images)
        prompt, shown = self._conversation.prompt(), self._conversation.images()
        limits = {
            Limit.TOKENS_PER_TURN: max_tokens,
            Limit.TOKENS_PER_EPISODE: self._horizon.max_tokens_per_episode - self._sampled_tokens - reserve,
            Limit.CONTEXT: self._horizon.max_context - len(prompt),
        }
        limit = min(limits, key=lambda one: limits[one])
        if limits[limit] <= 0:
            raise HorizonReached(self._reached(limit, len(prompt), question), limit, messages)
        completion = await self._client.generate(
            self._session,
            prompt,
            limits[limit],
            timeout_s,
            self._sampling,
            shown,
            self._images,
        )
        self._sampled_tokens += len(completion.tokens)
        messages += [question, self._conversation.act(completion.tokens, completion.logprobs, completion.versions)]
        return completion.tokens, limit if completion.finish_reason == CUT else None

    def _observe(self, text: str, images: Sequence[bytes]) -> Message:
        """Add an observation to the conversation.

        Raises:
            ImagesUnsupported: there are images, and the model reads text only.
            PolicyFailed: the model cannot read this observation.
        """
        if not self._conversation.reads_images:
            refuse_images(images)
        shown = [Image.of(one) for one in images]
        self._images |= {image.blob: one for image, one in zip(shown, images, strict=True)}
        try:
            message = self._conversation.observe(text, shown)
        except ValueError as error:
            raise PolicyFailed(f"the model cannot read the observation: {error}") from error
        sizes = {f"{one.width}x{one.height}": self._conversation.image_size(one) for one in shown}
        self._image_sizes = {**self._image_sizes, **sizes}
        self._images = {span.blob: self._images[span.blob] for span in self._conversation.images()}
        return message

    def _reached(self, limit: Limit, prompt: int, question: Message) -> str:
        """Return the reason for which a limit leaves no token for the answer to ``question``."""
        if limit is not Limit.CONTEXT:
            return f"{self._sampled_tokens} tokens sampled, `horizon.{limit}` is {getattr(self._horizon, limit)}"
        if question.index == 0:
            return too_long(prompt, self._horizon.max_context)
        return (
            f"the conversation has {prompt} tokens with its last observation of {len(question.tokens)}, "
            f"`horizon.max_context` is {self._horizon.max_context}"
        )

    def remember(self, turns: Sequence[PastTurn]) -> Sequence[Sequence[Message]]:
        """Add turns of another player to the conversation, encoded here; nothing of them is trained on."""
        messages = []
        for turn in turns:
            seen = self._observe(turn.observation, turn.images)
            messages.append([seen, self._conversation.append_external(turn.action, Source.PEER)])
        return messages

    def patch(self, text: str) -> Sequence[Message]:
        """Replace the last turn in the conversation; the sampled turn stays a message, and is trained on."""
        return [self._conversation.replace_turns(self.answers_per_turn, text, Source.PATCH)]

    def snapshot(self) -> Snapshot:
        """Return the conversation, its images, their sizes and the number of sampled tokens."""
        return self._conversation.snapshot(), self._images.copy(), self._image_sizes, self._sampled_tokens

    def restore(self, snapshot: Snapshot) -> None:
        """Continue the conversation of a snapshot."""
        conversation, images, self._image_sizes, self._sampled_tokens = snapshot
        self._images = dict(images)
        self._conversation.restore(conversation)

    def close(self) -> None:
        """Release the session; the client stops routing it."""
        self._client.release(self._session)


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
            PolicyFailed: the model cannot read the observation.
            ImagesUnsupported: the observation contains images, and the model reads text only.
        """
        deadline = monotonic() + self._turn_timeout_s
        messages: list[Message] = []
        most = self._horizon.max_tokens_per_turn
        limit = min(self._max_thought_tokens, most - 1)
        thought, _ = await self._answer(messages, observation, images, limit, self._turn_timeout_s, reserve=1)
        left_s = max(0.0, deadline - monotonic())
        action, cut_by = await self._answer(messages, self._request, (), most - len(thought), left_s)
        sampled = len(thought) + len(action)
        return PlayerTurn(self._conversation.text(action), messages, sampled, cut_by, self._image_sizes)
