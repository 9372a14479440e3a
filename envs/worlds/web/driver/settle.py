"""Wait for the effects of an action by protocol events, so that observations do not depend on the machine's load."""

from __future__ import annotations

import asyncio
import contextlib

from .protocol import PlaywrightError, ProtocolError
from .tabs import Context, Tab

LOAD_TIMEOUT_S = 3.0
"""Limit of the resources of an episode's first page, once it is parsed; the page is then observed as it is."""
DOWNLOAD_TIMEOUT_S = 1.0
"""Limit of a download that a page offers, and may prevent."""
FETCH_TIMEOUT_S = 3.0
"""Limit of the images, styles and fonts after that."""
POLL_INTERVAL_S = 0.005
TWO_TASKS = """new Promise(done => setTimeout(() => setTimeout(() => {
  document.documentElement?.getBoundingClientRect();
  done();
}, 0), 0))"""
"""Two rounds of the page's event loop, and a layout, which requests the images that styles name."""
TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def load(tab: Tab, url: str) -> None:
    """Open an address in a tab, and wait until the page is parsed and, within a limit, its resources are loaded.

    Raises:
        ProtocolError: the page cannot be reached, or the tab closed.
    """
    before = tab.document
    answer = await tab.session.send("Page.navigate", {"url": url})
    if answer.get("errorText"):
        raise ProtocolError(f"{url}: {answer['errorText']}")
    while (tab.document == before or tab.navigating) and not tab.crashed:
        await asyncio.sleep(POLL_INTERVAL_S)
        if tab.session.closed:
            raise ProtocolError(tab.session.closed)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LOAD_TIMEOUT_S):
            while tab.loaded != tab.document and not (tab.crashed or tab.session.closed):
                await asyncio.sleep(POLL_INTERVAL_S)


async def settle(context: Context) -> None:
    """Wait until the page in view shows the effects of the last action; the deadline of the request limits the wait.

    Chromium answers nothing about the present page while a navigation is in progress.
    """
    if not context.tabs:
        return
    tab = context.tab
    rounds = asyncio.ensure_future(_event_loop_rounds(tab))
    try:
        while not rounds.done() and not tab.loading:
            await asyncio.wait({rounds}, timeout=0.02)
    finally:
        rounds.cancel()
    await _tabs_and_downloads(context)
    tab = context.tab if context.tabs else tab
    while tab.navigating and tab in context.tabs and not tab.crashed:
        await asyncio.sleep(POLL_INTERVAL_S)
    await _resources(tab)
    if tab.url.startswith("chrome-error:"):
        context.note("that page cannot be reached")


async def _event_loop_rounds(tab: Tab) -> None:
    """Wait two rounds of the page and one of the browser, by which the action's consequences are announced.

    A frame would not do: there are sixty per second, and a screenshot produces one too.
    """
    with contextlib.suppress(PlaywrightError):
        await tab.session.send("Runtime.evaluate", {"expression": TWO_TASKS, "awaitPromise": True})
    with contextlib.suppress(PlaywrightError):
        await tab.session.send("Page.getNavigationHistory")


async def _tabs_and_downloads(context: Context) -> None:
    while context.opening:
        await asyncio.sleep(POLL_INTERVAL_S)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DOWNLOAD_TIMEOUT_S):
            while context.downloading:
                await asyncio.sleep(POLL_INTERVAL_S)
    context.downloading = False


async def _resources(tab: Tab) -> None:
    """Wait for images, styles and fonts, because the layout depends on them."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            while tab.fetching and not tab.crashed:
                await asyncio.sleep(POLL_INTERVAL_S)
    tab.fetching.clear()


async def frames_drawn(tab: Tab) -> None:
    """Wait for two frames; a wheel event scrolls in the first one."""
    with contextlib.suppress(PlaywrightError):
        await tab.session.send("Runtime.evaluate", {"expression": TWO_FRAMES, "awaitPromise": True})
