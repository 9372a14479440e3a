"""Decide whether a page or the machine is at fault when a request exceeds its deadline.

A page that the agent drove into an endless script, or into dialogs without end, is an outcome. All else is a failure of
the world: a site that sends no page, a page that gets no processor time, a browser that has stopped. The renderers'
processor time since the middle of the request distinguishes the two on a busy machine too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .chromium import browser_uid

if TYPE_CHECKING:
    from .browser import Browser

BUSY_S = 0.1
"""Processor time of one renderer in the second half of a request that only a page with an endless script needs: another
page takes a tenth of it, or was ready in the first half. A page gets more than this even of the busiest machine.
"""
DIALOGS = 3
"""The same in dialogs, which take little processor time."""
NANOSECONDS = 1e9

Times = Mapping[int, float]
"""Seconds on a processor, by process id."""


def renderer_times(uid: int) -> Times:
    """Return the times of the main threads of the renderers that run as ``uid``."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            if process.stat().st_uid == uid and b"--type=renderer" in (process / "cmdline").read_bytes():
                found[int(process.name)] = int((process / "schedstat").read_text().split()[0]) / NANOSECONDS
    return found


def at_fault(before: Times, after: Times) -> str:
    """Return ``page`` or ``machine``."""
    return "page" if any(ran - before.get(process, 0.0) >= BUSY_S for process, ran in after.items()) else "machine"


class Watch:
    """The renderers' times since the middle of a request; start it with the request, and stop it at the end."""

    def __init__(self, browser: Browser, deadline_s: float) -> None:
        self.browser = browser
        self.before: Times = {}
        self.dialogs = 0
        self._timer = asyncio.get_running_loop().call_later(deadline_s / 2, self._sample)

    def stop(self) -> None:
        """Take no sample any more."""
        self._timer.cancel()

    def at_fault(self) -> str:
        """Return who made the request late, ``page`` or ``machine``: the machine, if the site has not sent a page."""
        context = self.browser.context
        if context is not None and context.tabs and context.tab.loading:
            return "machine"
        if context is not None and context.dialogs - self.dialogs >= DIALOGS:
            return "page"
        return at_fault(self.before, renderer_times(browser_uid()))

    def _sample(self) -> None:
        self.before = renderer_times(browser_uid())
        self.dialogs = self.browser.context.dialogs if self.browser.context else 0
