"""Decide whether a page or the machine is at fault when a request exceeds its deadline.

A page that the agent drove into an endless script is an outcome. A page that gets no processor time, or a browser that
has stopped, is a failure of the world. The renderers' processor time and waiting time, as the kernel counts them since
the middle of the request, distinguish the two on a busy machine too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from .protocol import Connection, PlaywrightError

BUSY_S = 0.1
"""Processor time of one renderer in the second half of a request that only a page with an endless script needs: another
page takes a tenth of it, or was ready in the first half. A page gets more than this even of the busiest machine.
"""
STARVED_SHARE = 0.5
"""Share of the time in which a renderer waits for a processor, from which the machine is at fault."""
ANSWER_TIMEOUT_S = 2.0
NANOSECONDS = 1e9

Times = Mapping[int, tuple[float, float]]
"""By process id: seconds on a processor, and seconds of waiting for one."""


def renderer_times(uid: int) -> Times:
    """Return the times of the main threads of the renderers that run as ``uid``."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if process.stat().st_uid == uid and b"--type=renderer" in (process / "cmdline").read_bytes():
                ran, waited, _ = (process / "schedstat").read_text().split()
                found[int(process.name)] = int(ran) / NANOSECONDS, int(waited) / NANOSECONDS
    return found


def at_fault(before: Times, after: Times, seconds: float, browser_answers: bool) -> str:
    """Return ``page`` or ``machine``; ``seconds`` lie between the two times."""
    used = [
        (ran - before.get(process, (0.0, 0.0))[0], waited - before.get(process, (0.0, 0.0))[1])
        for process, (ran, waited) in after.items()
    ]
    if any(ran >= BUSY_S for ran, _ in used):
        return "page"
    starved = any(waited >= STARVED_SHARE * seconds for _, waited in used)
    return "page" if browser_answers and not starved else "machine"


class Watch:
    """The renderers' times since the middle of a request; start it with the request, and stop it at the end."""

    def __init__(self, uid: int, deadline_s: float) -> None:
        self.uid = uid
        self.before: Times = {}
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        self._timer = loop.call_later(deadline_s / 2, self._sample)

    def stop(self) -> None:
        """Take no sample any more."""
        self._timer.cancel()

    async def at_fault(self, connection: Connection | None) -> str:
        """Return who made the request late, ``page`` or ``machine``."""
        after, seconds = renderer_times(self.uid), asyncio.get_running_loop().time() - self.began
        return at_fault(self.before, after, seconds, await answers(connection))

    def _sample(self) -> None:
        self.before, self.began = renderer_times(self.uid), asyncio.get_running_loop().time()


async def answers(connection: Connection | None) -> bool:
    """Return whether the browser's own process answers. A browser that has ended was ended by its page."""
    if connection is None or connection.closed:
        return True
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await connection.root.send("Browser.getVersion")
    except PlaywrightError:
        return True
    except TimeoutError:
        return False
    return True
