"""Endless episodes for the format warm-up, played in a thread of the driver, ahead of the learner.

Nothing else stands between the driver and a stranger's world here. So an episode that raises is dropped; an
environment that keeps raising, or in which one call overruns its deadline, is left out and said so, and the others go
on; with none left the warm-up ends with the last reason. A thread that hangs is given up, never joined. The same
``rng`` gives the same episodes, until a world hangs.
"""

import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from random import Random
from time import monotonic
from typing import Generic, TypeVar

from ...agents.rollout.group_runner import kind_of
from ...envs.base import TurnEnv
from ...envs.registry import make
from ...errors import TurnwiseError
from ..config.sections import EnvironmentConfig

AHEAD = 16
"""Episodes played before they are asked for."""
PATIENCE = 10
"""Episodes in a row that an environment may fail."""
SEED_RANGE = 2**31

T = TypeVar("T")
Play = Callable[[TurnEnv, int, Random, Callable[[], None]], T]
"""One episode from a seed; the last argument is called before each call of the environment."""


class NothingToRehearse(TurnwiseError):
    """No environment of the mixture could be played."""


def rehearse(
    environments: Sequence[EnvironmentConfig],
    play: Play[T],
    rng: Random,
    deadline: float,
    tell: Callable[[str], None] = lambda text: None,
) -> Generator[T]:
    """Episodes of the mixture. ``deadline`` is for one call of an environment, in seconds.

    Raises:
        NothingToRehearse: every environment was left out.
    """
    left, number = list(environments), 0
    while True:
        thread = _Rehearsal(left, play, rng, deadline)
        thread.start()
        try:
            for answer in thread.answers():
                if isinstance(answer, _LeftOut):
                    left = [one for one in left if one is not answer.environment]
                    name = kind_of(answer.environment.id, answer.environment.options)
                    tell(f"{name} is left out of the format warm-up: {answer.reason}")
                    if not left:
                        raise NothingToRehearse(
                            f"no environment can be played for the format warm-up; {name}: {answer.reason}"
                        )
                else:
                    yield answer
        finally:
            thread.given_up.set()
        number += 1
        rng = Random(number)  # noqa: S311 - reproducible; the thread that hangs may still hold the other one


@dataclass(frozen=True, slots=True)
class _LeftOut:
    environment: EnvironmentConfig
    reason: str


class _Rehearsal(threading.Thread, Generic[T]):
    """Plays the mixture until given up."""

    def __init__(self, left: Sequence[EnvironmentConfig], play: Play[T], rng: Random, deadline: float) -> None:
        super().__init__(name="rehearsal", daemon=True)
        self.given_up = threading.Event()
        self._left = list(left)
        self._play, self._rng, self._deadline = play, rng, deadline
        self._ready: Queue[T | _LeftOut] = Queue(AHEAD)
        self._current = self._left[0]
        self._since = monotonic()

    def answers(self) -> Iterator[T | _LeftOut]:
        """What comes of it, up to and with an environment that hangs."""
        while True:
            try:
                yield self._ready.get(timeout=max(0.01, self._since + self._deadline - monotonic()))
            except Empty:
                if monotonic() - self._since >= self._deadline:
                    yield _LeftOut(self._current, f"a call had not returned after {self._deadline:g} s")
                    return

    def run(self) -> None:
        made: dict[int, TurnEnv] = {}
        failed = [0] * len(self._left)
        playing = list(range(len(self._left)))
        while playing and not self.given_up.is_set():
            chosen = self._rng.choices(playing, [self._left[one].weight for one in playing])[0]
            self._current = self._left[chosen]
            self._beat()
            try:
                if chosen not in made:
                    made[chosen] = make(self._current.id, **self._current.options)
                answer = self._play(made[chosen], self._rng.randrange(SEED_RANGE), self._rng, self._beat)
            except BaseException as error:  # SystemExit too: it is the world's, not ours
                failed[chosen] += 1
                if failed[chosen] >= PATIENCE:
                    playing.remove(chosen)
                    reason = traceback.format_exception_only(error)[-1].strip()
                    self._put(_LeftOut(self._current, f"{PATIENCE} episodes in a row raised, the last {reason}"))
            else:
                failed[chosen] = 0
                self._put(answer)

    def _beat(self) -> None:
        self._since = monotonic()

    def _put(self, answer: T | _LeftOut) -> None:
        while not self.given_up.is_set():
            self._beat()
            try:
                self._ready.put(answer, timeout=self._deadline / 2)
            except Full:
                continue
            return
