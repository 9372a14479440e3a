"""Chromium, and the contexts of its episodes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from pathlib import Path
from typing import Any

from playwright.async_api import Playwright, async_playwright

from .tabs import MAX_NOTES, Context

PROGRAM = "/usr/bin/chromium-headless-shell"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--renderer-process-limit=2",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--disable-checker-imaging",
    "--disable-smooth-scrolling",
    "--disable-partial-raster",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
HOME = "/tmp"  # noqa: S108 - the sandbox's own
CLOSE_SECONDS = 3.0
MAX_KEPT = 6
MAX_DATA = 640 << 20
"""Bytes that a process of the browser may reserve to write to; a page has 230 MiB at rest. One that wants more is
refused it or crashes, long before the sandbox has no memory left to answer with.
"""
MAX_HEAP_MIB = 256
"""Of what talks to Chromium; it holds what pages say until we have read it."""
NOTHING_COPIED = """(() => {
  if (document.activeElement) document.activeElement.blur();
  const nothing = event => {
    event.clipboardData.setData('text/plain', '');
    event.preventDefault();
  };
  addEventListener('copy', nothing, true);
  document.execCommand('copy');
  removeEventListener('copy', nothing, true);
})()"""
"""The clipboard is the browser's, not a context's: it would tell one episode of another. So is what was selected last,
which a middle click pastes: a new context begins by selecting something else.
"""


class Browser:
    """One Chromium; ``begin`` gives each episode a context of its own."""

    def __init__(self) -> None:
        self.playwright: Playwright | None = None
        self.chromium: Any = None
        self.context: Context | None = None
        self.kept: dict[str, Context] = {}
        """Contexts whose page may serve another episode, by its address."""

    @property
    def here(self) -> Context:
        """The context of the current episode.

        Raises:
            ConnectionError: there is none.
        """
        if self.context is None:
            raise ConnectionError("the browser has no page")
        return self.context

    async def launch(self) -> None:
        """Start Chromium; what talks to it as well, where it does not run: a page that says too much ends it."""
        settings: dict[str, Any] = {"executable_path": PROGRAM, "args": ARGUMENTS, "env": {**os.environ, "HOME": HOME}}
        if self.playwright is not None:
            with contextlib.suppress(Exception):
                self.chromium = await self.playwright.chromium.launch(**settings)
                return
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self.playwright.stop(), CLOSE_SECONDS)
        os.environ["NODE_OPTIONS"] = f"--max-old-space-size={MAX_HEAP_MIB}"
        self.playwright = await async_playwright().start()
        self.chromium = await self.playwright.chromium.launch(**settings)

    async def begin(self, width: int, height: int, keep: str = "") -> bool:
        """A context for an episode; what was before is gone. With ``keep``, an address: one whose page shows it already
        and was never left, if there is one; else True, and the page is to be opened.
        """
        await self.end()
        if self.chromium is None or not self.chromium.is_connected():
            self.kept = {}
            await self.launch()
            for process in children():
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(process, resource.RLIMIT_DATA, (MAX_DATA, MAX_DATA))
        found = self.kept.pop(keep, None)
        if found is not None and (found.disturbed or found.crashed or (found.width, found.height) != (width, height)):
            await self.drop(found)
            found = None
        if found is not None:
            self.context = found
            if found.pointed:
                await found.tab.page.mouse.move(-1, -1)
            await found.tab.session.send("Runtime.evaluate", {"expression": NOTHING_COPIED, "userGesture": True})
            return False
        settings = {
            "viewport": {"width": width, "height": height},
            "accept_downloads": False,
            "service_workers": "block",
            "locale": "en-US",
            "timezone_id": "UTC",
            "color_scheme": "light",
            "reduced_motion": "reduce",
        }
        self.context = Context(await self.chromium.new_context(**settings), width, height)
        await self.context.open_tab()
        tab = self.context.tab
        await tab.session.send("Runtime.evaluate", {"expression": NOTHING_COPIED, "userGesture": True})
        await tab.session.send("Runtime.evaluate", {"expression": "document.body.textContent = '.'"})
        await tab.page.mouse.dblclick(10, 16)
        await tab.page.mouse.move(-1, -1)
        self.context.kept_as = keep
        return True

    async def end(self) -> None:
        """The episode is over: its context is closed, or kept for another one."""
        ended, self.context = self.context, None
        if ended is None:
            return
        if ended.kept_as and not ended.disturbed:
            self.kept.pop(ended.kept_as, None)
            self.kept[ended.kept_as] = ended
            ended = self.kept.pop(next(iter(self.kept))) if len(self.kept) > MAX_KEPT else None
        if ended is not None:
            await self.drop(ended)

    async def drop(self, context: Context) -> None:
        """Close a context; the browser with it if it does not let go."""
        try:
            await asyncio.wait_for(context.context.close(), CLOSE_SECONDS)
        except Exception:
            await self.kill()

    async def replace(self, why: str) -> None:
        """The page in view answers no more: another browser takes the place of this one, with an empty page. Closing
        the page would do for the agent, but a renderer that spins spins on.
        """
        before = self.context
        width, height = (before.width, before.height) if before else (640, 480)
        await self.kill()
        await self.begin(width, height)
        if before:
            self.here.numbers, self.here.notes = before.numbers, before.notes[: MAX_NOTES - 1]
        self.here.note(why)

    async def kill(self) -> None:
        """End Chromium, whatever it is doing."""
        self.context, self.kept = None, {}
        chromium, self.chromium = self.chromium, None
        if chromium is None:
            return
        for process in children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(chromium.close(), CLOSE_SECONDS)


def children() -> list[int]:
    """The processes of Chromium; this box has no other."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if "headless" in str((process / "exe").readlink()):
                found.append(int(process.name))
    return found
