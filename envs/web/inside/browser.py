"""Chromium, the context of one episode, and its tabs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

from .look import Numbers

PROGRAM = "/usr/bin/chromium-headless-shell"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-zygote",
    "--renderer-process-limit=2",
    "--disable-gpu-vsync",
    "--disable-frame-rate-limit",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]
HOME = "/tmp"  # noqa: S108 - the sandbox's own
CLOSE_SECONDS = 3.0
MAX_TABS = 8
MAX_NOTES = 5


class Tab:
    """A page, its line to the browser, and what happened to it."""

    def __init__(self, page: Any, session: Any) -> None:
        self.page = page
        self.session = session
        self.document = 0
        """Number of the document it shows; another one with each navigation."""
        self.crashed = False
        self.loading: set[Any] = set()
        """Navigations under way."""


class Browser:
    """One Chromium; ``begin`` gives each episode a context of its own."""

    def __init__(self, playwright: Any) -> None:
        self.playwright = playwright
        self.chromium: Any = None
        self.context: Any = None
        self.tabs: list[Tab] = []
        self.adopting: dict[Any, asyncio.Future[None]] = {}
        self.active = 0
        self.numbers = Numbers()
        self.notes: list[str] = []
        """What happened that no page shows: dialogs, downloads, closed tabs."""
        self.documents = 0
        self.width, self.height = 0, 0

    @property
    def tab(self) -> Tab:
        """The one that is looked at."""
        return self.tabs[self.active]

    async def begin(self, width: int, height: int) -> None:
        """A new context with one empty tab; what was before is gone."""
        if self.context is not None:
            try:
                await asyncio.wait_for(self.context.close(), CLOSE_SECONDS)
            except Exception:
                await self.kill()
        if self.chromium is None or not self.chromium.is_connected():
            self.chromium = await self.playwright.chromium.launch(
                executable_path=PROGRAM, args=ARGUMENTS, headless=True, env={**os.environ, "HOME": HOME}
            )
        self.tabs, self.active, self.notes = [], 0, []
        self.numbers, self.documents = Numbers(), 0
        self.width, self.height = width, height
        self.context = await self.chromium.new_context(
            viewport={"width": width, "height": height},
            accept_downloads=False,
            service_workers="block",
            locale="en-US",
            timezone_id="UTC",
            color_scheme="light",
            reduced_motion="reduce",
        )
        self.adopting = {}
        self.context.on("page", lambda page: self.adopted(page))
        self.context.on("dialog", lambda dialog: asyncio.ensure_future(self.answer(dialog)))
        await self.open_tab()

    async def open_tab(self) -> None:
        """Open an empty tab, and look at it."""
        await self.adopted(await self.context.new_page())

    def adopted(self, page: Any) -> asyncio.Future[None]:
        """A tab that was opened, by us or by a page; done when it is known."""
        if page not in self.adopting:
            self.adopting[page] = asyncio.ensure_future(self.adopt(page))
        return self.adopting[page]

    async def adopt(self, page: Any) -> None:
        """Get to know a tab."""
        if len(self.tabs) >= MAX_TABS:
            self.note("a new tab was closed: there are too many")
            await page.close()
            return
        try:
            tab = Tab(page, await self.context.new_cdp_session(page))
        except Exception:
            return
        self.documents += 1
        tab.document = self.documents
        page.on("framenavigated", lambda frame: self.moved(tab, frame))
        page.on("crash", lambda _: self.broke(tab))
        page.on("close", lambda _: self.closed(tab))
        page.on("download", lambda download: self.note(f"a download was refused: {download.suggested_filename}"))
        page.on("request", lambda request: self.asked(tab, request))
        for event in ("requestfinished", "requestfailed"):
            page.on(event, lambda request: tab.loading.discard(request))
        if self.tabs:
            self.note("a new tab was opened")
        self.tabs.append(tab)
        self.active = len(self.tabs) - 1

    def moved(self, tab: Tab, frame: Any) -> None:
        """A frame shows another document."""
        if frame.parent_frame is None:
            self.documents += 1
            tab.document = self.documents

    def asked(self, tab: Tab, request: Any) -> None:
        """A request left; those for a document are waited for."""
        with contextlib.suppress(Exception):
            if request.is_navigation_request() and request.frame.parent_frame is None:
                tab.loading.add(request)

    def broke(self, tab: Tab) -> None:
        """The process of a page ended."""
        tab.crashed = True
        self.note("the page crashed")

    def closed(self, tab: Tab) -> None:
        """A tab is gone."""
        if tab in self.tabs:
            at = self.tabs.index(tab)
            self.tabs.remove(tab)
            if self.active >= at:
                self.active = max(0, self.active - 1)

    async def answer(self, dialog: Any) -> None:
        """Dialogs are accepted and told; nobody else would ever answer them."""
        self.note(f"a dialog was accepted ({dialog.type}): {' '.join(dialog.message.split())[:200]}")
        with contextlib.suppress(Exception):
            await dialog.accept()

    def note(self, text: str) -> None:
        """Keep what happened until it is told."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)

    async def replace(self, why: str) -> None:
        """The page in view answers no more: another browser takes the place of this one, with an empty page. Closing
        the page would do for the agent, but a renderer that spins spins on.
        """
        await self.kill()
        await self.begin(self.width, self.height)
        self.note(why)

    async def kill(self) -> None:
        """End Chromium, whatever it is doing."""
        self.context = None
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
