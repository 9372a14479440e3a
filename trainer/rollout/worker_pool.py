"""The rollout workers of a run: who plays the next group, and what happens when one dies.

A worker that died is replaced at once and the groups it was playing are handed back to the dispatcher. One that had
to give up a thread gets no more groups; it is replaced, and ended once its last group is back.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import TurnwiseError
from ...records import Group, Outcome

CHECK_INTERVAL_S = 10.0
"""Seconds between checks on a group under way."""


class WorkerLost(TurnwiseError):
    """The worker that was playing a group died."""


@dataclass(slots=True)
class _Slot:
    actor: Any
    running: int = 0
    retiring: bool = False


class Workers:
    """A fixed number of rollout workers, kept alive."""

    def __init__(self, start: Callable[[], Any], count: int) -> None:
        self._start = start
        self._slots = [_Slot(start()) for _ in range(count)]
        self.replaced = 0
        """Workers that died or were retired."""

    async def ready(self, deadline: float) -> None:
        """Wait until every worker answers.

        Raises:
            TurnwiseError: one did not within ``deadline`` seconds.
        """
        import ray.exceptions

        try:
            async with asyncio.timeout(deadline):
                await asyncio.gather(*(slot.actor.ping.remote() for slot in self._slots))
        except TimeoutError:
            raise TurnwiseError(f"the rollout workers did not start within {deadline:g} s") from None
        except ray.exceptions.RayError as error:
            raise TurnwiseError(f"a rollout worker could not start: {str(error).strip().splitlines()[-1]}") from error

    async def play(self, group: Group, members: Sequence[tuple[int, int]], deadline: float) -> list[Outcome]:
        """Play members of a group on the least busy worker.

        Raises:
            WorkerLost: the worker died, did not answer a check within ``deadline`` seconds, or has been playing one
                member for longer than that. The wait of a member for its environment's slot does not count.
        """
        import ray
        import ray.exceptions

        slot = min((one for one in self._slots if not one.retiring), key=lambda one: one.running)
        slot.running += len(members)
        try:
            outcomes, lost = await _played(slot.actor, group, members, deadline)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TurnwiseError):
                raise error.cause from None
            raise
        except (ray.exceptions.RayActorError, TimeoutError) as error:
            self._replace(slot)
            ray.kill(slot.actor)
            raise WorkerLost(
                f"the rollout worker of group {group.id} was lost: {str(error) or f'no answer for {deadline:g} s'}"
            ) from error
        finally:
            slot.running -= len(members)
            if slot.retiring and not slot.running:
                ray.kill(slot.actor)
        if lost:
            self._replace(slot)
            if not slot.running:
                ray.kill(slot.actor)
        return list(outcomes)

    async def cancel(self, deadline: float = 30.0) -> None:
        """Have every worker give up what it plays, for at most ``deadline`` seconds."""
        await asyncio.wait([asyncio.ensure_future(_cancel(slot.actor)) for slot in self._slots], timeout=deadline)

    def _replace(self, slot: _Slot) -> None:
        if slot.retiring:
            return
        slot.retiring = True
        self.replaced += 1
        self._slots = [one for one in self._slots if one is not slot] + [_Slot(self._start())]

    async def close(self, deadline: float = 10.0) -> None:
        """Let the workers close their environments, for at most ``deadline`` seconds."""
        await asyncio.wait([asyncio.ensure_future(_close(slot.actor)) for slot in self._slots], timeout=deadline)


async def _played(
    actor: Any, group: Group, members: Sequence[tuple[int, int]], deadline: float
) -> tuple[list[Outcome], int]:
    """Wait for a group, as long as its worker answers and keeps to the deadline. Raises TimeoutError."""
    playing = asyncio.ensure_future(_play(actor, group, members))
    try:
        while not (await asyncio.wait({playing}, timeout=CHECK_INTERVAL_S))[0]:
            async with asyncio.timeout(deadline):
                held = await actor.held.remote(group.id)
            if held > deadline and not playing.done():
                raise TimeoutError(f"one member has been playing for {held:.0f} s")
        return playing.result()
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)


async def _play(actor: Any, group: Group, members: Sequence[tuple[int, int]]) -> tuple[list[Outcome], int]:
    outcomes, lost = await actor.play.remote(group, members)
    return outcomes, lost


async def _cancel(actor: Any) -> None:
    await actor.cancel.remote()


async def _close(actor: Any) -> None:
    await actor.close.remote()
