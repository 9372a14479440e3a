"""Scores by a language model behind an OpenAI-compatible API, many episodes at a time, while rollouts continue.

Source: ours.

A judge that does not answer, even after the retries, is a failure: the trajectory is left out of its group like a
failed one, counted as ``unscored``, and never gets a reward for it. What the agent's text makes the judge answer is an
outcome: a text that is not a score (``agents.judge``) gives the score ``unscored``. The score, or the reason for its
absence, is stored with the trajectory.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from pydantic import Field, PrivateAttr

from ....agents import judge
from ....errors import TurnwiseError
from ....records import Group, Trajectory
from ..groups import PerTurn, Shaped
from .base import RewardShaper

T = TypeVar("T")


class JudgeClient:
    """The server of a judge, usable from any thread."""

    def __init__(self, url: str, max_requests: int, api_key_env: str, timeout_s: float) -> None:
        """Start the thread.

        Raises:
            TurnwiseError: the server cannot be used; see ``ChatApi``.
        """
        self.server = judge.JudgeServer(url, "`url` of the judge", timeout_s, api_key_env, max_requests)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="judge", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` on the loop and return its result; callable from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """Close the connections and end the thread; no request may be in flight."""
        self.run(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


RETRY_PAUSE_S = 0.5
"""Seconds before the first retry; doubles with each."""


class LLMJudge(RewardShaper):
    """Add ``weight`` times the judge's score to the reward of the last turn."""

    operational: ClassVar[frozenset[str]] = frozenset(
        {"url", "api_key_env", "timeout_s", "max_retries", "max_concurrent_requests"}
    )
    needs_texts: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    url: str
    """Base URL of the server, ``http://host:port/v1``."""
    model: str
    """Model name that the server expects."""
    rubric: str
    """The criteria of the score, in words."""
    weight: float = 1.0
    """Factor of the judge's score, which is added to the last step's reward."""
    api_key_env: str = ""
    """Name of the environment variable that holds the server's key; the key itself is never stored."""
    timeout_s: float = Field(60.0, gt=0)
    """Seconds per answer, with the waits that the server requests."""
    max_retries: int = Field(2, ge=0)
    """Retries after a failed request or an answer without a score."""
    max_concurrent_requests: int = Field(16, ge=1)
    """Maximum number of concurrent requests, over all groups."""
    unscored: float = Field(0.0, ge=0, le=1)
    """Score of an episode that the judge answers without a score; 1 for a negative ``weight``."""
    _lock: threading.Lock = PrivateAttr(default_factory=threading.Lock)
    _client: JudgeClient | None = PrivateAttr(None)
    _calls: int = PrivateAttr(0)
    """Calls in progress; the last one closes the client."""
    _has_scored: bool = PrivateAttr(False)
    _verdicts_since: list[bool] = PrivateAttr(default_factory=list)
    """Whether each verdict since the last update has no score."""

    def __call__(self, group: Group, rewards: PerTurn) -> list[Shaped]:
        """Return the rewards with the scores added. Thread-safe: all calls share ``max_concurrent_requests``."""
        with self._shared_client() as client:
            verdicts = client.run(self._verdicts(client.server, group))
        self._verdicts_since += ["unscored" in verdict or "error" in verdict for verdict in verdicts]
        return [self._shaped(turns, verdict) for turns, verdict in zip(rewards, verdicts, strict=True)]

    def metrics(self) -> dict[str, float]:
        """Return the share of the verdicts without a score since the last update."""
        verdicts, self._verdicts_since = self._verdicts_since, []
        return {"unscored_fraction": sum(verdicts) / max(len(verdicts), 1)}

    def _shaped(self, turns: list[float], verdict: dict[str, Any]) -> Shaped:
        if "score" not in verdict:
            return Shaped(None, verdict)
        return Shaped([*turns[:-1], turns[-1] + self.weight * verdict["score"]] if turns else turns, verdict)

    @contextmanager
    def _shared_client(self) -> Iterator[JudgeClient]:
        with self._lock:
            client = self._client = self._client or JudgeClient(
                self.url, self.max_concurrent_requests, self.api_key_env, self.timeout_s
            )
            self._calls += 1
        try:
            yield client
        finally:
            with self._lock:
                self._calls -= 1
                last = not self._calls
                if last:
                    self._client = None
            if last:
                client.close()

    async def _verdicts(self, server: judge.JudgeServer, group: Group) -> list[dict[str, Any]]:
        """Return per trajectory its ``score`` or, if the judge does not answer, the ``error``."""

        async def verdict(trajectory: Trajectory) -> dict[str, Any]:
            found = dict[str, Any]()
            try:
                episode = render_episode(group, trajectory)
            except TurnwiseError as error:
                return {"error": str(error)}
            for attempt in range(self.max_retries + 1):
                if attempt:
                    await asyncio.sleep(RETRY_PAUSE_S * 2 ** (attempt - 1))
                try:
                    score = await server.score(self.model, self.rubric, episode)
                    self._has_scored = True
                    return {"score": score}
                except judge.NoVerdict as error:
                    if self._has_scored:
                        found = {"score": self.unscored, "unscored": str(error)}
                    else:
                        found = {"error": f"{error}; {judge.UNFIT}"}
                except TurnwiseError as error:
                    found = {"error": str(error)}
            return found

        return list(await asyncio.gather(*(verdict(trajectory) for trajectory in group.trajectories)))


def render_episode(group: Group, trajectory: Trajectory) -> str:
    """Return the environment, the observations and the actions as the judge reads them."""
    conversation = [
        {"role": role, "content": text}
        for step in trajectory.steps
        for role, text in (("user", step.observation), ("assistant", step.action))
    ]
    return judge.render({"environment": group.task.env_id}, conversation)
