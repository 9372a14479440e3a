"""Play an endless stream of episodes for the warm-up, in a thread of the driver, ahead of the learner.

The warm-up runs third-party environments inside the driver process, so their failures are contained here:

* An episode that raises is dropped; the first of several in a row is reported.
* An environment that raises ``MAX_CONSECUTIVE_FAILURES`` times in a row, or whose call exceeds the timeout, is excluded
  with a warning; the others continue.
* If no environment is left, ``NoPlayableEnvironment`` is raised with the last reason.
* A thread that hangs is abandoned, never joined.

The same ``rng`` yields the same episodes until an environment hangs.
"""

import logging
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from random import Random
from time import monotonic

from ...base.process.children import copies_end
from ...envs.base import TurnEnv
from ...envs.registry import make
from ...envs.runner.once import checked_seeds
from ...envs.tasks import env_key_of
from ...errors import TurnwiseError
from ..config.sections import EnvironmentConfig
from ..learner.sft import SftExample

LOG = logging.getLogger(__name__)

Episode = Sequence[SftExample]
"""One example per context of the policy."""
PlayEpisode = Callable[[TurnEnv, int, Random, Callable[[], None]], Episode]
"""Play one episode: ``(environment, seed, rng, heartbeat)``. ``heartbeat`` is called before each environment call."""

PREFETCH_EPISODES = 16
"""Episodes played before they are requested."""
MAX_CONSECUTIVE_FAILURES = 10
"""Episodes in a row that may fail before their environment is excluded."""
SEED_RANGE = 2**31
POLL_INTERVAL_S = 0.2
"""Seconds between two checks of whether the warm-up has stopped."""


class NoPlayableEnvironment(TurnwiseError):
    """No environment of the mixture could be played."""


def random_episodes(
    environments: Sequence[EnvironmentConfig],
    play: PlayEpisode,
    rng: Random,
    timeout_s: float,
    report: Callable[[str], None] = lambda text: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[Episode]:
    """Yield episodes of the mixture until ``stopped`` returns True, which is checked while an episode is played too.

    Args:
        timeout_s: limit for one call of an environment.
        report: called with one line per failed episode that follows a played one, and per excluded environment.

    Raises:
        NoPlayableEnvironment: every environment was excluded.
    """
    playable, threads = list(environments), 0
    while not stopped():
        thread = _EpisodeThread(playable, play, rng, timeout_s)
        thread.start()
        try:
            for result in thread.results(stopped):
                if not isinstance(result, _Failed):
                    yield result
                    continue
                name = env_key_of(result.environment.id, result.environment.options)
                if not isinstance(result, _Excluded):
                    report(f"an episode of the warm-up in {name} failed: {result.reason}")
                    continue
                playable = [one for one in playable if one is not result.environment]
                report(f"{name} is excluded from the warm-up: {result.reason}")
                if not playable:
                    raise NoPlayableEnvironment(
                        "no environment can be played for the warm-up; the last one excluded is "
                        f"{name}: {result.reason}; run `turnwise envs check {result.environment.id}`"
                    )
        finally:
            thread.abandoned.set()
        threads += 1
        # A hung thread may still draw from the old generator.
        rng = Random(threads)  # noqa: S311 - reproducible, not secret


@dataclass(frozen=True, slots=True)
class _Failed:
    """An episode raised."""

    environment: EnvironmentConfig
    reason: str


@dataclass(frozen=True, slots=True)
class _Excluded(_Failed):
    """An environment is not played any more."""


class _EpisodeThread(threading.Thread):
    """Plays the mixture until it is abandoned."""

    def __init__(
        self, environments: Sequence[EnvironmentConfig], play: PlayEpisode, rng: Random, timeout_s: float
    ) -> None:
        super().__init__(name="warmup-episodes", daemon=True)
        self.abandoned = threading.Event()
        self._environments = list(environments)
        self._play, self._rng, self._timeout_s = play, rng, timeout_s
        self._results: Queue[Episode | _Failed] = Queue(PREFETCH_EPISODES)
        self._current = self._environments[0]
        self._last_heartbeat = monotonic()

    def results(self, stopped: Callable[[], bool]) -> Iterator[Episode | _Failed]:
        """Yield episodes, failures and exclusions until ``stopped``; end with the exclusion of one that hangs."""
        while not stopped():
            try:
                left = self._last_heartbeat + self._timeout_s - monotonic()
                yield self._results.get(timeout=min(POLL_INTERVAL_S, max(0.01, left)))
            except Empty:
                if monotonic() - self._last_heartbeat >= self._timeout_s:
                    yield _Excluded(self._current, f"a call did not return within {self._timeout_s:g} s")
                    return

    def run(self) -> None:
        envs: dict[int, tuple[TurnEnv, Sequence[int] | None]] = {}
        failures = [0] * len(self._environments)
        playable = list(range(len(self._environments)))
        while playable and not self.abandoned.is_set():
            chosen = self._rng.choices(playable, [self._environments[one].weight for one in playable])[0]
            self._current = self._environments[chosen]
            self._heartbeat()
            try:
                with copies_end():
                    if chosen not in envs:
                        env = make(self._current.id, **self._current.options)
                        envs[chosen] = env, checked_seeds(self._current.id, "train", env.tasks("train"))
                    env, seeds = envs[chosen]
                    seed = self._rng.randrange(SEED_RANGE) if seeds is None else self._rng.choice(seeds)
                    episode = self._play(env, seed, self._rng, self._heartbeat)
            except BaseException as error:  # an environment may also raise SystemExit
                failures[chosen] += 1
                LOG.warning("a warm-up episode raised", exc_info=True, extra={"environment": str(chosen)})
                last = traceback.format_exception_only(error)[-1].strip()
                if failures[chosen] == 1:
                    self._put(_Failed(self._current, last))
                elif failures[chosen] >= MAX_CONSECUTIVE_FAILURES:
                    playable.remove(chosen)
                    reason = f"{MAX_CONSECUTIVE_FAILURES} episodes in a row raised, the last {last}"
                    self._put(_Excluded(self._current, reason))
            else:
                failures[chosen] = 0
                self._put(episode)

    def _heartbeat(self) -> None:
        self._last_heartbeat = monotonic()

    def _put(self, result: Episode | _Failed) -> None:
        """Queue a result; a full queue does not count as a hang."""
        while not self.abandoned.is_set():
            self._heartbeat()
            try:
                self._results.put(result, timeout=self._timeout_s / 2)
            except Full:
                continue
            return
