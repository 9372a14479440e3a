"""Lines about work that takes more than ``INTERVAL_S``: how much is done, and an estimate of the time that remains."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

INTERVAL_S = 10.0
"""Seconds between two lines, and before the first one."""


@asynccontextmanager
async def reported(report: Callable[[str], None], line: Callable[[float], str]) -> AsyncIterator[None]:
    """While the context is open, report ``line`` of the seconds so far every ``INTERVAL_S``."""
    began = monotonic()

    async def repeat() -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            report(line(monotonic() - began))

    repeating = asyncio.ensure_future(repeat())
    try:
        yield
    finally:
        repeating.cancel()


def remaining(done: float, total: float, seconds: float) -> str:
    """Return an estimate of the time that remains, at the rate so far; the time so far if nothing is done."""
    return f"about {seconds * (total - done) / done:.0f} s remain" if done else f"{seconds:.0f} s so far"
