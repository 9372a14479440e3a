"""The policy under training as a player: token ids in, token ids out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...records import Group, Horizon, Trajectory
from ..errors import CannotSee, HorizonReached
from ..rollout.episode import Answer

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ..engine.client import PolicyClient
    from ..tokens.conversation import Chat, Transcript


def policy_player(
    client: PolicyClient, chat: Chat, owner: EnvThread, group: Group, trajectory: Trajectory, turn_timeout_s: float
) -> PolicyPlayer:
    """Create the player of one episode; its system message is the prompt prefix and the environment's instructions."""
    system = "\n\n".join(part for part in (group.prompt_prefix, owner.instructions) if part)
    return PolicyPlayer(client, chat.begin(system), group.horizon, trajectory.id, turn_timeout_s)


def refuse_images(images: Sequence[bytes]) -> None:
    """Refuse to act for a policy that reads text only, where an observation holds images.

    Raises:
        CannotSee: there are images.
    """
    if images:
        raise CannotSee(
            f"the observation shows {len(images)} image{'s' if len(images) > 1 else ''}, and this policy reads text "
            "only; it would act blind. Choose an environment (or an option of it) that tells its state in text"
        )


class PolicyPlayer:
    """The language model: token in, token out, with the tokens, log-probabilities and versions the engine reported."""

    def __init__(
        self, client: PolicyClient, transcript: Transcript, horizon: Horizon, session: str, deadline: float
    ) -> None:
        self._client = client
        self._transcript = transcript
        self._horizon = horizon
        self._session = session
        self._deadline = deadline
        self._used = 0

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """See ``episode.Player``."""
        refuse_images(images)
        asked = self._transcript.observe(observation)
        prompt = self._transcript.prompt()
        limits = {
            "tokens a turn": self._horizon.max_tokens_per_turn,
            "tokens in all": self._horizon.max_tokens_per_episode - self._used,
            "context": self._horizon.max_context - len(prompt),
        }
        limit = min(limits, key=lambda name: limits[name])
        if limits[limit] <= 0:
            raise HorizonReached(f"the limit on {limit} was reached")
        said = await self._client.generate(self._session, prompt, limits[limit], self._deadline)
        self._used += len(said.tokens)
        answer = self._transcript.act(said.tokens, said.logprobs, said.versions)
        return Answer(self._transcript.text(said.tokens), (asked, answer), len(said.tokens))

    def close(self) -> None:
        """The engine need not remember this session."""
        self._client.release(self._session)
