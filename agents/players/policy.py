"""Who can act in an episode: the run's policy, and the ones it is measured against."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from ...errors import TurnwiseError
from ...records import Horizon
from ..errors import CannotSee, EngineFailed, HorizonReached
from ..rollout.episode import Answer

if TYPE_CHECKING:
    from ...envs.runner.env_thread import EnvThread
    from ..engine.client import PolicyClient
    from ..tokens.conversation import Transcript


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


class TokenPlayer:
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


class RandomPlayer:
    """Draw an action from the environment's ``valid_actions``, each with a probability proportional to its weight."""

    def __init__(self, owner: EnvThread, rng: Random, deadline: float) -> None:
        self._owner = owner
        self._deadline = deadline
        self._rng = rng

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """See ``episode.Player``."""
        listed = await self._owner.run("valid_actions", lambda env: env.valid_actions(), self._deadline)
        return Answer(self._rng.choices([text for text, _ in listed], [weight for _, weight in listed])[0])

    def close(self) -> None:
        """Nothing is held."""


class OraclePlayer:
    """Does what the environment says is right."""

    def __init__(self, owner: EnvThread, deadline: float) -> None:
        self._owner = owner
        self._deadline = deadline

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """See ``episode.Player``."""
        return Answer(await self._owner.run("oracle", lambda env: env.oracle(), self._deadline))

    def close(self) -> None:
        """Nothing is held."""


class ChatServer:
    """An OpenAI-compatible server. All its players share one client, which keeps its connections open between turns.

    It bounds neither requests nor connections: the caller bounds the episodes. Belongs to the event loop that first
    uses it; ``close`` it there.
    """

    def __init__(self, url: str, temperature: float, deadline: float) -> None:
        """``url`` is the base, ``http://host:port/v1``; the model's name may follow a ``#``.

        Raises:
            TurnwiseError: ``httpx`` is not installed.
        """
        try:
            import httpx
        except ImportError as error:
            raise TurnwiseError(f"the policy {url} needs httpx, which is not installed: `pip install httpx`") from error
        base, _, self._model = url.partition("#")
        self._url = base.rstrip("/") + "/chat/completions"
        self._temperature = temperature
        self._deadline = deadline
        self._errors = (httpx.HTTPError, ValueError, KeyError, IndexError, TypeError)
        unbounded = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.AsyncClient(timeout=deadline, limits=unbounded)

    async def answer(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The server's next message.

        Raises:
            EngineFailed: the server gave none within the deadline.
        """
        body: dict[str, object] = {"messages": messages, "temperature": self._temperature}
        if self._model:
            body["model"] = self._model
        try:
            async with asyncio.timeout(self._deadline):
                answer = await self._http.post(self._url, json=body)
            answer.raise_for_status()
            return str(answer.json()["choices"][0]["message"]["content"])
        except TimeoutError:
            raise EngineFailed(f"{self._url} gave no answer within {self._deadline:g} s") from None
        except self._errors as error:
            raise EngineFailed(f"{self._url} gave no answer: {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class ChatPlayer:
    """One episode of the model behind a server. The server returns text without tokens: it cannot be trained on."""

    def __init__(self, server: ChatServer, system: str) -> None:
        self._server = server
        self._messages = [{"role": "system", "content": system}] if system else []

    async def act(self, observation: str, images: Sequence[bytes]) -> Answer:
        """See ``episode.Player``."""
        refuse_images(images)
        self._messages.append({"role": "user", "content": observation})
        text = await self._server.answer(self._messages)
        self._messages.append({"role": "assistant", "content": text})
        return Answer(text)

    def close(self) -> None:
        """Nothing is held."""
