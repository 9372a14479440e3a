"""The rollout workers of a run, and their replacement.

* A worker that died or stopped answering is killed and replaced at once; its groups go back to the caller.
* A worker that abandoned a hung environment thread is drained: it gets no new groups, is replaced at once, and is
  killed when its last group returns.
* Each node of the cluster has its workers: they get groups once they answer, and are drained when their node leaves.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...agents.placement import reason_of_loss
from ...agents.rollout.assignment import Assignment
from ...base.logs import log_errors
from ...errors import TurnwiseError
from ...records import Outcome

LOG = logging.getLogger(__name__)

CHECK_INTERVAL_S = 10.0
"""Seconds between two checks of a worker that plays a group, and of the nodes of the cluster."""
START_TIMEOUT_S = 120.0
"""Seconds in which a worker on a node that joins must answer."""
RETRY_INTERVAL_S = 60.0
"""Pause after a worker on such a node did not."""
CANCEL_TIMEOUT_S = 30.0
"""Seconds in which workers record the cancellation of their episodes."""
CLOSE_TIMEOUT_S = 10.0
"""Seconds in which workers close their environments."""


class WorkerLost(TurnwiseError):
    """The worker that was playing a group died or stopped answering."""


@dataclass(slots=True)
class _Worker:
    actor: Any
    node: str
    running: int = 0
    """Running members."""
    draining: bool = False


class WorkerPool:
    """The live rollout workers."""

    def __init__(
        self, start: Callable[[str], Any], nodes: Sequence[str], note: Callable[[str], None] = lambda text: None
    ) -> None:
        """Start an actor on each of ``nodes`` with ``start``, without waiting for any.

        Args:
            nodes: ids of Ray nodes; one that appears twice has two workers.
            note: receives a line for the user when a worker was lost.
        """
        self._note = note
        self._start = start
        self._workers = [_Worker(start(node), node) for node in nodes]
        self.replaced = 0
        """Workers replaced so far."""
        self._following: asyncio.Task[None] | None = None
        self._left_out: dict[str, float] = {}
        """Nodes on which no worker could start, and when to try again."""

    @property
    def actors(self) -> list[Any]:
        """Return the actors of the workers that get new groups."""
        return [worker.actor for worker in self._workers]

    async def ready(self, timeout_s: float) -> None:
        """Wait until every worker answers.

        Raises:
            TurnwiseError: a worker did not answer within ``timeout_s``, died, or raised this error.
        """
        import ray.exceptions

        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(worker.actor.ready.remote() for worker in self._workers))
        except TimeoutError:
            raise TurnwiseError(f"the rollout workers did not start within {timeout_s:g} s") from None
        except ray.exceptions.RayError as error:
            raise start_error("a rollout worker", error) from error

    def follow(self, nodes: Callable[[], Sequence[str]]) -> None:
        """Keep a worker on each node that ``nodes`` returns twice in a row, until ``close``.

        ``nodes`` is called in a thread, and may block. Ray places actors elsewhere while a node joins.
        """
        self._following = asyncio.create_task(self._follow(nodes), name="nodes of the rollout workers")

    async def _follow(self, nodes: Callable[[], Sequence[str]]) -> None:
        before: list[str] = []
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                wanted = sorted(await asyncio.to_thread(nodes))
                if wanted and wanted == before:
                    await self.place(wanted)
                before = wanted
            except Exception:  # Ray's head may be away for a moment, and raises many types
                LOG.exception("the workers do not follow the nodes of the cluster; they are compared again")

    async def place(self, nodes: Sequence[str]) -> None:
        """Start the workers that ``nodes`` lacks, and drain those on other nodes, but never all.

        A worker that does not answer within ``START_TIMEOUT_S`` is killed. Its node is tried again later.
        """
        missing = Counter(nodes)
        leaving = []
        for worker in self._workers:
            if missing[worker.node]:
                missing[worker.node] -= 1
            else:
                leaving.append(worker)
        now = time.monotonic()
        joining = [node for node in missing.elements() if self._left_out.get(node, now) <= now]
        started = await asyncio.to_thread(lambda: [_Worker(self._start(node), node) for node in joining])
        await asyncio.gather(*map(self._join, started))
        for worker in leaving:
            if worker in self._workers and len(self._workers) > 1:
                LOG.info("a rollout worker is drained", extra={"node": worker.node})
                worker.draining = True
                self._workers.remove(worker)
                if not worker.running:
                    _kill(worker)

    async def _join(self, worker: _Worker) -> None:
        """Give groups to a worker that has started, or kill it."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await worker.actor.ready.remote()
        except asyncio.CancelledError:
            _kill(worker)
            raise
        except Exception:  # whatever its constructor raised
            _kill(worker)
            self._left_out[worker.node] = time.monotonic() + RETRY_INTERVAL_S
            LOG.exception("a rollout worker could not start", extra={"node": worker.node})
        else:
            LOG.info("a rollout worker has started", extra={"node": worker.node})
            self._workers.append(worker)

    async def play(self, assignment: Assignment, timeout_s: float) -> list[Outcome]:
        """Play an assignment on the least busy worker, and return the outcomes.

        Raises:
            WorkerLost: the worker died, did not answer a check within ``timeout_s``, or has been playing one member
                for longer than that. The wait of a member for its environment's slot does not count.
        """
        import ray.exceptions

        worker = min((worker for worker in self._workers if not worker.draining), key=lambda one: one.running)
        worker.running += len(assignment.members)
        try:
            outcomes, abandoned_threads = await _supervised(worker.actor, timeout_s, assignment)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TurnwiseError):
                raise error.cause from None
            raise
        except (ray.exceptions.RayError, TimeoutError) as error:
            reason = reason_of_loss(error) or f"no answer for {timeout_s:g} s"
            if not worker.draining:
                self._note(f"a rollout worker was lost ({reason}); another one plays its episodes again")
            self._replace(worker)
            _kill(worker)
            raise WorkerLost(f"the rollout worker of group {assignment.group.id} was lost: {reason}") from error
        finally:
            worker.running -= len(assignment.members)
            if worker.draining and not worker.running:
                _kill(worker)
        if abandoned_threads:
            self._replace(worker)
            if not worker.running:
                _kill(worker)
        return outcomes

    async def cancel(self, timeout_s: float = CANCEL_TIMEOUT_S) -> None:
        """Cancel every running episode; wait at most ``timeout_s``."""
        await self._on_all("cancel", timeout_s)

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Close the environments of every worker; wait at most ``timeout_s``."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._on_all("close", timeout_s)

    async def _on_all(self, method: str, timeout_s: float) -> None:
        async def call(actor: Any) -> None:
            with log_errors(LOG, f"a rollout worker did not {method}"):
                await getattr(actor, method).remote()

        if calls := [asyncio.ensure_future(call(worker.actor)) for worker in self._workers]:
            await asyncio.wait(calls, timeout=timeout_s)

    def _replace(self, worker: _Worker) -> None:
        if worker.draining:
            return
        worker.draining = True
        self.replaced += 1
        self._workers = [one for one in self._workers if one is not worker] + [
            _Worker(self._start(worker.node), worker.node)
        ]


def start_error(what: str, error: Exception) -> TurnwiseError:
    """Return the error to report when Ray raised ``error`` at the start of an actor: its own, or one with a remedy."""
    if isinstance(cause := getattr(error, "cause", None), TurnwiseError):
        return cause
    reason = reason_of_loss(error)
    if getattr(error, "actor_init_failed", False):  # it raised, and would again
        return TurnwiseError(f"{what} could not start: {reason}; `turnwise runs logs RUN` shows where")
    return TurnwiseError(
        f"{what} could not start: {reason}; `turnwise runs logs RUN` may show why; run the same command again"
    )


def _kill(worker: _Worker) -> None:
    import ray

    ray.kill(worker.actor)


async def _supervised(actor: Any, timeout_s: float, assignment: Assignment) -> tuple[list[Outcome], int]:
    """Return the outcomes of an assignment and how many threads the worker has abandoned.

    Raises:
        TimeoutError: the worker does not answer, or one member has been playing for longer than ``timeout_s``.
    """

    async def play() -> tuple[list[Outcome], int]:
        outcomes, abandoned_threads = await actor.play.remote(assignment)
        return list(outcomes), abandoned_threads

    playing = asyncio.ensure_future(play())
    try:
        while not (await asyncio.wait({playing}, timeout=CHECK_INTERVAL_S))[0]:
            async with asyncio.timeout(timeout_s):
                held = await actor.slot_held_s.remote(assignment.group.id)
            if held > timeout_s and not playing.done():
                raise TimeoutError(f"one member has been playing for {held:.0f} s")
        return playing.result()
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
