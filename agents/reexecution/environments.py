"""Environments that several re-executions use one after another, as the episodes of a run do: a browser starts slowly.

Only an environment whose last episode matched is used again. A difference that a used environment shows is never
reported: the trajectory is executed again in a fresh one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ...envs.runner.env_thread import EnvThread
from ...envs.tasks import env_key
from ...records import Task

CALL_TIMEOUT_S = 60.0
"""Timeout of each call to the environment."""


@dataclass(slots=True)
class Leased:
    """An environment during one re-execution."""

    env_thread: EnvThread
    used: bool
    """Whether another trajectory was executed in it before."""
    reusable: bool = False
    """Whether another trajectory may be executed in it; set by the re-execution."""


class Environments:
    """The environments of one event loop, by environment key; ``close`` it there."""

    def __init__(self) -> None:
        self._idle: dict[str, list[EnvThread]] = {}

    @asynccontextmanager
    async def lease(self, task: Task, *, fresh: bool = False) -> AsyncIterator[Leased]:
        """Lease an environment of the task that is made. With ``fresh``, nothing was executed in it before.

        Raises:
            EnvError: the environment could not be made.
        """
        waiting = self._idle.setdefault(env_key(task), [])
        leased = Leased(waiting.pop(), True) if waiting and not fresh else Leased(EnvThread.of(task), False)
        try:
            if not leased.used:
                await leased.env_thread.make(CALL_TIMEOUT_S)
            yield leased
        except BaseException:
            leased.reusable = False
            raise
        finally:
            if leased.reusable:
                waiting.append(leased.env_thread)
            else:
                await leased.env_thread.close(CALL_TIMEOUT_S)

    async def close(self) -> None:
        """Close the idle environments."""
        for waiting in self._idle.values():
            while waiting:
                await waiting.pop().close(CALL_TIMEOUT_S)
