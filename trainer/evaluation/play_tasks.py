"""Play held-out tasks once each, recorded in the store and never trained on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from ...records import Group, GroupState, Horizon, Outcome, Purpose, Task
from ...store.run_store import RunStore

CLOSE_REASON = "evaluation"


async def play_tasks(
    store: RunStore,
    name: str,
    tasks: Sequence[Task],
    horizon: Horizon,
    play: Callable[[Group], Awaitable[Sequence[Outcome]]],
    max_concurrent: int | None = None,
) -> list[tuple[Task, Outcome]]:
    """Open a group of one per task, play it, close it, and return how each task ended.

    Args:
        name: distinguishes the groups of this evaluation from others of the run.
        play: plays an open group and returns its outcomes.
        max_concurrent: groups open at the same time; None opens all.
    """
    slots = asyncio.Semaphore(max_concurrent) if max_concurrent is not None else None

    async def one(number: int, task: Task) -> list[tuple[Task, Outcome]]:
        group = Group(f"{store.run}:eval-{name}-{number}", store.run, task, horizon, 1, Purpose.EVAL)
        async with AsyncExitStack() as held:
            if slots is not None:
                await held.enter_async_context(slots)
            await store.open_group(group)
            outcomes = await play(group)
            await store.close_group(group.id, GroupState.FILTERED, CLOSE_REASON)
        return [(task, outcome) for outcome in outcomes]

    played = await asyncio.gather(*(one(number, task) for number, task in enumerate(tasks)))
    return [pair for pairs in played for pair in pairs]
