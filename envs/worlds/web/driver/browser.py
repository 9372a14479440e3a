"""Chromium and the contexts of its episodes: one per episode, or a kept page that the next episode reuses in place."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from playwright.async_api import Playwright, async_playwright

from .chromium import Chromium
from .protocol import Connection, PlaywrightError
from .recycling import CLEAR_CLIPBOARD, clear_clipboard, recycled
from .tabs import MAX_NOTES, Context

LOG = logging.getLogger(__name__)
"""Warnings go to stderr, which is a file of the sandbox."""

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-dev-shm-usage",
    "--renderer-process-limit=1",
    "--disable-blink-features=FetchLaterAPI",
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
CLOSE_TIMEOUT_S = 3.0
LAUNCH_TIMEOUTS_S = (15.0, 25.0)
"""Limits of both attempts to start Chromium in a new sandbox, together below the limit of the start of the driver."""
RESTART_TIMEOUTS_S = (4.0, 7.0)
"""Limits of both attempts to start Chromium again, within the time that a step or an episode has for it."""
MAX_KEPT_CONTEXTS = 6
MAX_NODE_HEAP_MIB = 256
"""Heap of Playwright's Node process, which buffers the messages of pages."""


class Browser:
    """One Chromium at a time; ``begin`` gives each episode its context.

    Playwright raises a plain ``Exception`` once its Node process has ended, and raises the error of an event listener
    from the next call, whatever its type. A handler that replaces or ends a part therefore catches ``Exception``.
    """

    def __init__(self, processes: Chromium) -> None:
        self.processes = processes
        self.playwright: Playwright | None = None
        self.chromium: Any = None
        self.launched = False
        """Whether Chromium has started before."""
        self.context: Context | None = None
        self.kept: dict[str, Context] = {}
        """Contexts whose page may serve another episode in place, by address."""
        self.emptied: Context | None = None
        """The context of an ended episode, emptied for the next one."""
        self.acted = False
        """Whether an ended episode may have written to the clipboard since it was cleared."""

    @property
    def current(self) -> Context:
        """The context of the current episode. Raises ConnectionError: no episode has begun."""
        if self.context is None:
            raise ConnectionError("the browser has no page")
        return self.context

    @property
    def connection(self) -> Connection:
        """The pipe of the running browser. Raises ConnectionError: no browser runs."""
        if self.processes.connection is None:
            raise ConnectionError("the browser is not running")
        return self.processes.connection

    async def launch(self) -> None:
        """Start Chromium, and Playwright too if it is not running: a page that sends too many messages ends it."""
        first, second = RESTART_TIMEOUTS_S if self.launched else LAUNCH_TIMEOUTS_S
        if self.playwright is None:
            self.playwright = await _start_playwright()
        try:
            await self._launch(self.playwright, first)
            return
        except Exception:
            LOG.warning("Chromium did not start; Playwright restarts", exc_info=True)
        try:
            await asyncio.wait_for(self.playwright.stop(), CLOSE_TIMEOUT_S)
        except Exception:
            LOG.warning("Playwright did not stop", exc_info=True)
        self.playwright = await _start_playwright()
        await self._launch(self.playwright, second)

    async def _launch(self, playwright: Playwright, timeout_s: float) -> None:
        async def launch() -> Any:
            return await playwright.chromium.launch(
                executable_path=self.processes.executable, args=ARGUMENTS, timeout=1000 * timeout_s
            )

        self.chromium = await self.processes.start(launch)
        self.launched = True

    async def begin(self, width: int, height: int, reusable_for_url: str = "") -> bool:
        """End the current episode and start another one; return whether its page must still be opened.

        With ``reusable_for_url``, the context is a kept one that displays that address and was never left, if there
        is one.
        """
        await self.end()
        found = await self.usable(self.kept.pop(reusable_for_url, None), width, height)
        emptied = None
        if found is None:
            before, self.emptied = self.emptied, None
            emptied = await self.usable(before, width, height)
        if self.chromium is None or not self.chromium.is_connected():
            found, emptied, self.emptied, self.kept = None, None, None, {}
            await self.launch()
            # The first episode of a browser begins like all others.
            self.acted = True
        if found is not None:
            self.context = found
            if found.pointed:
                await found.tab.session.move(-1, -1)
            await found.tab.session.send("Runtime.evaluate", {"expression": CLEAR_CLIPBOARD, "userGesture": True})
            return False
        self.context = emptied or await self.new_context(width, height)
        if self.acted:
            await clear_clipboard(self.context)
            self.acted = False
        self.context.reusable_for_url = reusable_for_url
        return True

    async def usable(self, context: Context | None, width: int, height: int) -> Context | None:
        """Return the context if an episode may use it, else close it."""
        if context is None:
            return None
        if context.crashed or context.dirty or not context.tabs or (context.width, context.height) != (width, height):
            await self.drop(context)
            return None
        return context

    async def new_context(self, width: int, height: int) -> Context:
        """Return a new context with one empty tab."""
        settings = {
            "viewport": {"width": width, "height": height},
            "accept_downloads": False,
            "service_workers": "block",
            "locale": "en-US",
            "timezone_id": "UTC",
            "color_scheme": "light",
            "reduced_motion": "reduce",
        }
        context = Context(await self.chromium.new_context(**settings), self.connection, width, height)
        await context.open_tab()
        return context

    async def end(self) -> None:
        """End the episode: keep its page or its emptied context for another episode, or close the context."""
        ended, self.context = self.context, None
        if ended is None:
            return
        self.acted |= ended.acted
        if ended.reusable_for_url and not ended.dirty:
            self.kept.pop(ended.reusable_for_url, None)
            self.kept[ended.reusable_for_url] = ended
            if len(self.kept) <= MAX_KEPT_CONTEXTS:
                return
            ended = self.kept.pop(next(iter(self.kept)))
        before, self.emptied = self.emptied, None
        if before is not None:
            await self.drop(before)
        try:
            self.emptied = await recycled(ended)
        except (PlaywrightError, OSError):
            LOG.warning("a context was not emptied", exc_info=True)
        if self.emptied is None:
            await self.drop(ended)

    async def drop(self, context: Context) -> None:
        """Close a context; kill the browser if the context does not close."""
        try:
            await asyncio.wait_for(context.context.close(), CLOSE_TIMEOUT_S)
        except Exception:
            LOG.warning("a context did not close; the browser is killed", exc_info=True)
            await self.kill()

    async def replace(self, reason: str) -> None:
        """Replace the browser, whose page no longer responds, by a new one with an empty page.

        Closing the page would be enough for the agent, but the renderer of an endless script keeps running.
        """
        before = self.context
        width, height = (before.width, before.height) if before else (640, 480)
        await self.kill()
        await self.begin(width, height)
        if before:
            self.current.numbers, self.current.notes = before.numbers, before.notes[: MAX_NOTES - 1]
        self.current.note(reason)

    async def kill(self) -> None:
        """Kill Chromium."""
        self.context, self.emptied, self.kept = None, None, {}
        chromium, self.chromium = self.chromium, None
        await self.processes.end()
        if chromium is None:
            return
        try:
            await asyncio.wait_for(chromium.close(), CLOSE_TIMEOUT_S)
        except Exception:
            LOG.warning("Chromium did not close after its processes were killed", exc_info=True)


async def _start_playwright() -> Playwright:
    os.environ["NODE_OPTIONS"] = f"--max-old-space-size={MAX_NODE_HEAP_MIB}"
    return await async_playwright().start()
