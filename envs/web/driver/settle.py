"""Waiting until the page shows what an action began: what is seen does not depend on how busy the machine is."""

from __future__ import annotations

import asyncio
import contextlib

from .tabs import Context, Tab

SETTLE_SECONDS = 3.0
"""How long a navigation that an action began may take before the page is looked at as it is."""
OPEN_SECONDS = 1.0
"""How long a tab may take that a page opens, or a download to be offered."""
FETCH_SECONDS = 1.0
"""How long pictures, styles and fonts may take after that."""
DRAW_SECONDS = 1.0
"""How long two frames may take."""
ROUNDS = """new Promise(done => setTimeout(() => setTimeout(() => {
  document.documentElement?.getBoundingClientRect();
  done();
}, 0), 0))"""
"""Two rounds through the page, and its layout, which asks for the pictures that styles name."""
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def settle(context: Context) -> None:
    """Wait until the page in view shows what the last action began; a page that does not come is no longer waited for.

    Until a navigation is over, Chromium answers nothing about the page that is still there.
    """
    if not context.tabs:
        return
    tab = context.tab
    rounds = asyncio.ensure_future(turned(tab))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while not rounds.done() and not tab.loading:
                await asyncio.wait({rounds}, timeout=0.02)
            await opened(context)
            tab = context.tab if context.tabs else tab
            while tab.coming and tab in context.tabs and not tab.crashed:
                await asyncio.sleep(0.005)
            await fetched(tab)
    rounds.cancel()
    if tab.page.url.startswith("chrome-error:"):
        context.note("that page cannot be reached")
    if tab.loading and tab in context.tabs:
        context.note(f"the next page did not come within {SETTLE_SECONDS:g} s, and is no longer waited for")
        tab.loading.clear()
        with contextlib.suppress(Exception):
            await tab.session.send("Page.stopLoading")


async def turned(tab: Tab) -> None:
    """Two rounds through the page and one through the browser: what the action began has been announced by then. Not
    through a frame: there are sixty a second, and a picture makes one of its own.
    """
    with contextlib.suppress(Exception):
        await tab.session.send("Runtime.evaluate", {"expression": ROUNDS, "awaitPromise": True})
    with contextlib.suppress(Exception):
        await tab.session.send("Page.getNavigationHistory")


async def opened(context: Context) -> None:
    """Wait for the tabs and the downloads that a page opens."""
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            while context.opening or context.downloading:
                await asyncio.sleep(0.005)
    except TimeoutError:
        if context.opening:
            context.note("a new tab did not come in time, and is no longer waited for")
        context.opening, context.downloading = 0, False


async def fetched(tab: Tab) -> None:
    """Wait for pictures, styles and fonts, not for long: how a page is laid out depends on whether they are there."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FETCH_SECONDS):
            while tab.fetching and not tab.crashed:
                await asyncio.sleep(0.005)
    tab.fetching.clear()


async def drawn(tab: Tab) -> None:
    """Wait for two frames: a wheel scrolls with the first of them."""
    with contextlib.suppress(Exception):
        async with asyncio.timeout(DRAW_SECONDS):
            await tab.session.send("Runtime.evaluate", {"expression": FRAMES, "awaitPromise": True})
