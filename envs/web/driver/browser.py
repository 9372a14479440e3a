"""Chromium and the contexts of its episodes: one per episode, or a kept page that the next episode reuses in place."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from playwright.async_api import Playwright, async_playwright

from . import page_input
from .chromium import Chromium
from .protocol import Connection
from .tabs import MAX_NOTES, Context

LOG = logging.getLogger(__name__)
"""Warnings go to stderr, which is a file of the sandbox."""

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
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
CLOSE_TIMEOUT_S = 3.0
MAX_KEPT_CONTEXTS = 6
MAX_NODE_HEAP_MIB = 256
"""Heap of Playwright's Node process, which buffers the messages of pages."""
CLEAR_CLIPBOARD = """(() => {
  if (document.activeElement) document.activeElement.blur();
  const clear = event => {
    event.clipboardData.setData('text/plain', '');
    event.preventDefault();
  };
  addEventListener('copy', clear, true);
  document.execCommand('copy');
  removeEventListener('copy', clear, true);
})()"""
"""Empties the clipboard. Clipboard and primary selection (pasted by a middle click) belong to the browser, not to a
context, and would leak from one episode into the next; a new context therefore also selects another text.
"""


class Browser:
    """One Chromium at a time; ``begin`` gives each episode its context.

    Playwright raises a plain ``Exception`` once its Node process has ended, and raises the error of an event listener
    from the next call, whatever its type. A handler that replaces or ends a part therefore catches ``Exception``.
    """

    def __init__(self, processes: Chromium) -> None:
        self.processes = processes
        self.playwright: Playwright | None = None
        self.chromium: Any = None
        self.context: Context | None = None
        self.kept: dict[str, Context] = {}
        """Contexts whose page may serve another episode in place, by address."""

    @property
    def current(self) -> Context:
        """The context of the current episode.

        Raises:
            ConnectionError: no episode has begun.
        """
        if self.context is None:
            raise ConnectionError("the browser has no page")
        return self.context

    @property
    def connection(self) -> Connection:
        """The pipe of the running browser.

        Raises:
            ConnectionError: no browser runs.
        """
        if self.processes.connection is None:
            raise ConnectionError("the browser is not running")
        return self.processes.connection

    async def launch(self) -> None:
        """Start Chromium, and Playwright too if it is not running: a page that sends too many messages ends it."""
        if self.playwright is not None:
            try:
                await self._launch(self.playwright)
                return
            except Exception:
                LOG.warning("Chromium did not start; Playwright restarts", exc_info=True)
            try:
                await asyncio.wait_for(self.playwright.stop(), CLOSE_TIMEOUT_S)
            except Exception:
                LOG.warning("Playwright did not stop", exc_info=True)
        os.environ["NODE_OPTIONS"] = f"--max-old-space-size={MAX_NODE_HEAP_MIB}"
        self.playwright = await async_playwright().start()
        await self._launch(self.playwright)

    async def _launch(self, playwright: Playwright) -> None:
        async def launch() -> Any:
            return await playwright.chromium.launch(executable_path=self.processes.executable, args=ARGUMENTS)

        self.chromium = await self.processes.start(launch)

    async def begin(self, width: int, height: int, reusable_for_url: str = "") -> bool:
        """End the current episode and start another one; return whether its page must still be opened.

        With ``reusable_for_url``, the context is a kept one that displays that address and was never left, if there
        is one.
        """
        await self.end()
        if self.chromium is None or not self.chromium.is_connected():
            self.kept = {}
            await self.launch()
        found = self.kept.pop(reusable_for_url, None)
        if found is not None and (found.dirty or found.crashed or (found.width, found.height) != (width, height)):
            await self.drop(found)
            found = None
        if found is not None:
            self.context = found
            if found.pointed:
                await page_input.move(found.tab.session, -1, -1)
            await found.tab.session.send("Runtime.evaluate", {"expression": CLEAR_CLIPBOARD, "userGesture": True})
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
        self.context = Context(await self.chromium.new_context(**settings), self.connection, width, height)
        await self.context.open_tab()
        session = self.context.tab.session
        await session.send("Runtime.evaluate", {"expression": CLEAR_CLIPBOARD, "userGesture": True})
        await session.send("Runtime.evaluate", {"expression": "document.body.textContent = '.'"})
        await page_input.click(session, 10, 16, count=2)
        await page_input.move(session, -1, -1)
        self.context.reusable_for_url = reusable_for_url
        return True

    async def end(self) -> None:
        """End the episode: close its context, or keep it for another episode."""
        ended, self.context = self.context, None
        if ended is None:
            return
        if ended.reusable_for_url and not ended.dirty:
            self.kept.pop(ended.reusable_for_url, None)
            self.kept[ended.reusable_for_url] = ended
            ended = self.kept.pop(next(iter(self.kept))) if len(self.kept) > MAX_KEPT_CONTEXTS else None
        if ended is not None:
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
        self.context, self.kept = None, {}
        chromium, self.chromium = self.chromium, None
        await self.processes.end()
        if chromium is None:
            return
        try:
            await asyncio.wait_for(chromium.close(), CLOSE_TIMEOUT_S)
        except Exception:
            LOG.warning("Chromium did not close after its processes were killed", exc_info=True)
