"""Empty the browser context of an episode for the next one, because a new context costs a new renderer and its memory.

A new tab opens in the context, so that the renderer stays; the old tabs are closed, and everything that the context
stores is deleted. A tab is what holds history, window name, session storage, focus and zoom, so the new one has none.
Scripts are off before their tab closes: otherwise, a page could still write, or send requests, when it closes.

Invariant: the next episode finds no difference to a new context. A context that may keep more than is deleted here
(because of a worker or a request in progress, for example) is not emptied but replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from .chromium import browser_uid
from .protocol import PlaywrightError
from .tabs import Context, Tab

MAX_EPISODES = 50
"""Episodes per context; its renderer keeps a little memory of each."""
MAX_RENDERER_MIB = 350
"""Writable memory of a renderer that may serve another episode; a page at rest has 230 MiB, the limit is 640 MiB."""
SILENCE_TIMEOUT_S = 0.5
"""Limit of a page's answer that its scripts are off; a page with an endless script gives none."""
CLOSE_TIMEOUT_S = 2.0
MIB = 1 << 20
PAGE_BYTES = 4096
CLEAR_CLIPBOARD = (Path(__file__).parent / "clear_clipboard.js").read_text()
"""Empties the clipboard. Clipboard and primary selection (pasted by a middle click) belong to the browser, not to a
context, and would leak from one episode into the next; an episode in another tab therefore also selects another text.
"""


async def recycled(old: Context) -> Context | None:
    """Return an emptied context with one empty tab; None if ``old`` may not serve another episode.

    Raises:
        PlaywrightError, OSError: a tab does not open or close.
    """
    try:
        async with asyncio.timeout(SILENCE_TIMEOUT_S):
            await asyncio.gather(
                *(tab.session.send("Emulation.setScriptExecutionDisabled", {"value": True}) for tab in old.tabs)
            )
    except (TimeoutError, PlaywrightError):
        return None
    # Events of requests and tabs precede the answers.
    if not emptiable(old) or largest_renderer_mib(browser_uid()) > MAX_RENDERER_MIB:
        return None
    old.release()
    new = Context(old.context, old.connection, old.width, old.height)
    new.episodes = old.episodes + 1
    async with asyncio.timeout(CLOSE_TIMEOUT_S):
        await new.open_only_tab(old.id)
        await asyncio.gather(*(close(new, tab) for tab in old.tabs))
        await clear_storage(new)
    return new


def emptiable(context: Context) -> bool:
    """Return whether a new tab and ``clear_storage`` leave nothing of the context's episode."""
    if context.leftover or context.opening or context.downloading or not context.tabs:
        return False
    if context.episodes >= MAX_EPISODES:
        return False
    if not all(one.done() for one in context.adopting.values()):
        return False
    # The request for the script of a worker never ends.
    return not any(tab.crashed or tab.requested or tab.authenticated for tab in context.tabs)


async def close(context: Context, tab: Tab) -> None:
    """Close a tab and wait for its end."""
    browser = await context.connection.browser_session()
    await browser.send("Target.closeTarget", {"targetId": tab.target})
    await tab.session.ended.wait()


async def clear_storage(context: Context) -> None:
    """Delete what pages of any origin stored in a context: cookies, databases, files, caches and permissions."""
    browser, page = await context.connection.browser_session(), context.tab.session
    await asyncio.gather(
        browser.start("Storage.clearCookies", {"browserContextId": context.id}),
        browser.start("Browser.resetPermissions", {"browserContextId": context.id}),
        page.start("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"}),
        page.start("Network.clearBrowserCache"),
    )


async def clear_clipboard(context: Context) -> None:
    """Empty the clipboard, and replace the primary selection by a text on the context's empty page."""
    session = context.tab.session
    await session.send("Runtime.evaluate", {"expression": CLEAR_CLIPBOARD, "userGesture": True})
    await session.send("Runtime.evaluate", {"expression": "document.body.textContent = '.'"})
    await session.click(10, 16, count=2)
    await session.move(-1, -1)
    await session.send("Runtime.evaluate", {"expression": "document.body.textContent = ''"})


def largest_renderer_mib(uid: int) -> float:
    """Return the writable memory of the largest renderer that runs as ``uid``, in MiB."""
    found = [0]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if process.stat().st_uid == uid and b"--type=renderer" in (process / "cmdline").read_bytes():
                found.append(int((process / "statm").read_text().split()[5]))
    return max(found) * PAGE_BYTES / MIB
