"""Environments that episodes use one after another: a browser starts slowly."""

from __future__ import annotations

import asyncio

from ...envs.runner.env_thread import EnvThread
from ...envs.tasks import env_key_of
from ...records import Task


class Environments:
    """The idle environments of one event loop, by environment key; ``close`` them there."""

    def __init__(self) -> None:
        self._idle: dict[str, list[EnvThread]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def take(self, task: Task, timeout_s: float, *, fresh: bool = False) -> tuple[EnvThread, bool]:
        """Return an environment of a task that is made, and whether an episode used it before.

        Args:
            fresh: make one.

        Raises:
            EnvError: the environment could not be made.
        """
        waiting = self._idle.get(env_key_of(task.env_id, task.options))
        if waiting and not fresh:
            return waiting.pop(), True
        env_thread = EnvThread.of(task)
        await env_thread.make(timeout_s)
        return env_thread, False

    def keep(self, env_thread: EnvThread) -> None:
        """Keep an environment for the next episode."""
        self._idle.setdefault(env_key_of(env_thread.env_id, env_thread.options), []).append(env_thread)

    def close_later(self, env_thread: EnvThread, timeout_s: float) -> None:
        """Close an environment, which may be in a call, without a wait for it."""
        closing = asyncio.ensure_future(env_thread.close(timeout_s))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self, timeout_s: float) -> None:
        """Close the idle environments, and wait for those that are being closed."""
        idle = [env_thread for waiting in self._idle.values() for env_thread in waiting]
        self._idle.clear()
        await asyncio.gather(*(env_thread.close(timeout_s) for env_thread in idle), *self._closing)
