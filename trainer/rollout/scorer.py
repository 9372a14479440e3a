"""Score closed groups while rollouts and updates continue.

Each group is shaped and filtered in its own thread, because a judge may take seconds. The result is stored, and
then passed to the components, one group after the other: the order of the stored numbers is the order in which the
components observe the groups. No await lies between the commit and ``observe``, so a checkpoint holds both or neither.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from ...records import GroupState
from ..context import RunContext
from ..failpoints import failpoint
from .scoring import Scoring, score, unscored

T = TypeVar("T")

MAX_CONCURRENT_SCORINGS = 16
"""Groups that are shaped at the same time; further groups wait."""


class Scorer:
    """Scores the closed groups of one run."""

    def __init__(self, context: RunContext, first_number: int) -> None:
        """``first_number`` is above the number of every stored scoring of the run."""
        self._algorithms = context.algorithms
        self._store = context.store
        self._timeout_s = context.config.rollout.group_timeout_s
        self._next_number = first_number
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_SCORINGS)
        self._order = asyncio.Lock()

    async def score(self, group: str) -> tuple[GroupState, str]:
        """Score a closed group, store the result, and return its state and the reason why it is not ready.

        A scoring that takes longer than ``rollout.group_timeout_s`` fails the group.

        Raises:
            TurnwiseError: a reward shaper is broken, or the store does not answer.
        """
        async with self._slots:
            scoring = await self._scoring(group)
        async with self._order:
            number, self._next_number = self._next_number, self._next_number + 1
            await self._store.score_group(group, number, scoring.state, scoring.reason, scoring.rewards)
            failpoint("group_scored")
            self._algorithms.observe(number, scoring.scored)
        return scoring.state, scoring.reason

    async def _scoring(self, group: str) -> Scoring:
        algorithms = self._algorithms
        (loaded,) = await self._store.load([group], texts=algorithms.scoring_needs_texts)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await in_thread(lambda: score(loaded, algorithms.rewards, algorithms.group_filters))
        except TimeoutError:
            return unscored(loaded, f"the rewards took longer than `rollout.group_timeout_s` = {self._timeout_s:g} s")


async def in_thread(work: Callable[[], T]) -> T:
    """Return the result of ``work``, run in a new daemon thread.

    A cancelled caller leaves the thread behind, and the end of the process does not wait for it.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as failure:  # noqa: BLE001 - the caller raises it
            error = failure
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:
            return  # The loop has ended; nobody waits.

    threading.Thread(target=run, name="scoring", daemon=True).start()
    return await future
