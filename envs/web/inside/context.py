"""One episode's browser context, and its tabs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from .look import Numbers

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


class Context:
    """Tabs, which of them is looked at, and what happened that no page shows."""

    def __init__(self, context: Any, width: int, height: int) -> None:
        """``context`` is Playwright's; sizes are CSS pixels."""
        self.context = context
        self.width, self.height = width, height
        self.tabs: list[Tab] = []
        self.adopting: dict[Any, asyncio.Future[None]] = {}
        self.active = 0
        self.numbers = Numbers()
        self.notes: list[str] = []
        """Dialogs, downloads, closed tabs, until they are told."""
        self.documents = 0
        self.kept_as = ""
        """The address whose page may serve another episode as it stands; empty if none may."""
        self.pointed = False
        """Whether the pointer was moved onto the page."""
        self.disturbed = False
        """Whether anything happened but on the one page it was opened with."""
        context.on("page", lambda page: self.adopted(page))
        context.on("dialog", lambda dialog: asyncio.ensure_future(self.answer(dialog)))

    @property
    def tab(self) -> Tab:
        """The one that is looked at."""
        return self.tabs[self.active]

    def begin(self) -> None:
        """What happened so far is no part of the episode that begins now."""
        self.numbers, self.notes = Numbers(), []
        self.pointed = self.disturbed = False

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
            session = await self.context.new_cdp_session(page)
            await session.send("Page.enable")
        except Exception:
            return
        tab = Tab(page, session)
        self.documents += 1
        tab.document = self.documents
        # Not Playwright's event, which tells of a change of #fragment too: there the document stays.
        session.on("Page.frameNavigated", lambda event: self.moved(tab, event["frame"]))
        session.on("Page.navigatedWithinDocument", lambda _: self.disturb())
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

    def moved(self, tab: Tab, frame: Mapping[str, Any]) -> None:
        """A frame shows another document."""
        if "parentId" not in frame:
            self.documents += 1
            tab.document = self.documents
            self.disturbed = True

    def disturb(self) -> None:
        """The page may not serve another episode."""
        self.disturbed = True

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
        self.disturbed = True
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
        self.disturbed = True
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)
