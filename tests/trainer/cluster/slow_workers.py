"""Rollout workers with faults.

Ray imports this module in the process of each, so it imports nothing large before it is needed.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

from turnwise.records import Outcome, Status

if TYPE_CHECKING:
    from turnwise.agents.rollout.assignment import Assignment


class Slow:
    """A rollout worker whose only member waits for a slot, then plays. It injects the delays of a worker under load."""

    def __init__(self, queues_s: float, plays_s: float, blocks: bool) -> None:
        self._queues_s, self._plays_s, self._blocks = queues_s, plays_s, blocks
        self._since: float | None = None

    async def play(self, assignment: Assignment) -> tuple[list[Outcome], int]:
        await asyncio.sleep(self._queues_s)
        self._since = time.monotonic()
        if self._blocks:
            time.sleep(self._plays_s)  # The fault: its event loop blocks.
        await asyncio.sleep(self._plays_s)
        self._since = None
        ended = Status.COMPLETED, 1.0, True, 1, 1
        return [Outcome("t", member, attempt, *ended) for member, attempt in assignment.members], 0

    async def slot_held_s(self, name: str) -> float:
        return 0.0 if self._since is None else time.monotonic() - self._since

    async def ready(self) -> bool:
        return True

    async def close(self) -> None:
        """Do nothing: it holds no environment."""


class Broken(Slow):
    """A worker of a node on which it cannot start."""

    def __init__(self) -> None:
        raise OSError("no model folder here")


class Killed(Slow):
    """A worker whose process ends while it starts."""

    def __init__(self) -> None:
        """End the process."""
        os._exit(1)


def refused_by_pydantic() -> None:
    """Raise pydantic's error of several lines, the last of which is an address."""
    from pydantic import BaseModel, field_validator

    class Refused(BaseModel):
        size: int

        @field_validator("size")
        @classmethod
        def _fits(cls, value: int) -> int:
            if value > 128:
                raise ValueError(f"User-specified size ({value}) is greater than 128.\nSet it to less.")
            return value

    Refused(size=512)


class Raising(Slow):
    """A worker that raises while it starts."""

    def __init__(self, how: str) -> None:
        """Raise an error of one of several forms."""
        if how == "pydantic":
            refused_by_pydantic()
        if how == "chained":
            try:
                raise KeyError("inner")
            except KeyError as error:
                raise RuntimeError("the kernel: no such head size:\n  96 of 64") from error
        if how == "empty":
            raise AssertionError
        from turnwise.agents.errors import UnusableChat

        raise UnusableChat("`folder`: it has no chat template")
