"""The policy under training as a player: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...records import Group, Horizon, Trajectory
from ..errors import HorizonReached, ImagesUnsupported
from ..rollout.episode import PlayerTurn

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ..engine.client import PolicyClient
    from ..tokens.conversation import Chat, Conversation


def policy_player(
    client: PolicyClient, chat: Chat, env_thread: EnvThread, group: Group, trajectory: Trajectory, turn_timeout_s: float
) -> PolicyPlayer:
    """Create the player of one episode; its system message is the prompt prefix and the environment's instructions."""
    system = "\n\n".join(part for part in (group.prompt_prefix, env_thread.instructions) if part)
    return PolicyPlayer(client, chat.begin(system), group.horizon, trajectory.id, turn_timeout_s)


def refuse_images(images: Sequence[bytes]) -> None:
    """Refuse to act for a policy that reads text only, where an observation holds images.

    Raises:
        ImagesUnsupported: there are images.
    """
    if images:
        raise ImagesUnsupported(
            f"the observation shows {len(images)} image{'s' if len(images) > 1 else ''}, and this policy reads text "
            "only; it would act blind. Choose an environment (or an option of it) that tells its state in text"
        )


class PolicyPlayer:
    """The language model: token in, token out, with the tokens, log-probabilities and versions the engine reported."""

    def __init__(
        self, client: PolicyClient, conversation: Conversation, horizon: Horizon, session: str, turn_timeout_s: float
    ) -> None:
        self._client = client
        self._conversation = conversation
        self._horizon = horizon
        self._session = session
        self._turn_timeout_s = turn_timeout_s
        self._sampled_tokens = 0

    async def act(self, observation: str, images: Sequence[bytes]) -> PlayerTurn:
        """See ``episode.Player``."""
        refuse_images(images)
        prompt_message = self._conversation.observe(observation)
        prompt = self._conversation.prompt()
        limits = {
            "tokens a turn": self._horizon.max_tokens_per_turn,
            "tokens in all": self._horizon.max_tokens_per_episode - self._sampled_tokens,
            "context": self._horizon.max_context - len(prompt),
        }
        limit = min(limits, key=lambda name: limits[name])
        if limits[limit] <= 0:
            raise HorizonReached(f"the limit on {limit} was reached")
        completion = await self._client.generate(self._session, prompt, limits[limit], self._turn_timeout_s)
        self._sampled_tokens += len(completion.tokens)
        message = self._conversation.act(completion.tokens, completion.logprobs, completion.versions)
        return PlayerTurn(self._conversation.text(completion.tokens), (prompt_message, message), len(completion.tokens))

    def close(self) -> None:
        """The engine need not remember this session."""
        self._client.release(self._session)
