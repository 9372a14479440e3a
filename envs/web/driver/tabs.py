"""One episode's browser context, and its tabs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from .observe import Numbers

MAX_TABS = 8
MAX_NOTES = 5
GONE = "has been closed"
"""What Playwright says of anything that is asked of a tab that is gone."""
GONE_SECONDS = 0.5
"""How long after that it may still be listed."""
LOOKS = ("Image", "Stylesheet", "Font")
"""Kinds of requests that a page's layout waits for."""


class Tab:
    """A page, its line to the browser, and what happened to it."""

    def __init__(self, page: Any, session: Any) -> None:
        self.page = page
        self.session = session
        self.crashed = False
        self.frame = ""
        """The outermost one's id."""
        self.document = ""
        """The document it shows, by its loader's id: another one with each navigation, but for those to a #fragment."""
        self.parsed = ""
        """The last document that was read to its end."""
        self.loading: list[str] = []
        """Documents that were asked for and are not shown yet, in order."""
        self.fetching: set[str] = set()
        """Requests for pictures, styles and fonts under way."""

    @property
    def coming(self) -> bool:
        """Whether another document is about to be shown, or the one shown is still being read."""
        return bool(self.loading) or self.parsed != self.document

    async def listen(self) -> None:
        """Follow what it loads. All of it by one session: what happened before an answer is known before it comes."""
        self.session.on("Network.requestWillBeSent", self.asked)
        self.session.on("Network.loadingFinished", lambda event: self.fetching.discard(event["requestId"]))
        self.session.on("Network.loadingFailed", self.failed)
        self.session.on("Page.frameNavigated", lambda event: self.moved(event["frame"]))
        self.session.on("Page.lifecycleEvent", self.lived)
        await self.session.send("Page.enable")
        tree = await self.session.send("Page.getFrameTree")
        self.moved(tree["frameTree"]["frame"])
        await self.session.send("Page.setLifecycleEventsEnabled", {"enabled": True})
        await self.session.send("Network.enable")

    def asked(self, event: Mapping[str, Any]) -> None:
        """A request left."""
        if event.get("type") in LOOKS:
            self.fetching.add(event["requestId"])
        elif event["requestId"] == event["loaderId"] and event.get("frameId") == self.frame:
            # Asked once more where it was redirected.
            self.loading = [*(one for one in self.loading if one != event["loaderId"]), event["loaderId"]]

    def failed(self, event: Mapping[str, Any]) -> None:
        """A request failed, or what it brought is not to be shown."""
        self.fetching.discard(event["requestId"])
        self.loading = [one for one in self.loading if one != event["requestId"]]

    def moved(self, frame: Mapping[str, Any]) -> None:
        """A frame shows another document."""
        if "parentId" not in frame:
            self.frame, self.document = frame["id"], frame["loaderId"]
            if self.document in self.loading:
                self.loading = self.loading[self.loading.index(self.document) + 1 :]

    def lived(self, event: Mapping[str, Any]) -> None:
        """A document came so far."""
        if event["name"] == "DOMContentLoaded" and event["loaderId"] == self.document:
            self.parsed = self.document


class Context:
    """Tabs, which of them is looked at, and what happened that no page shows."""

    def __init__(self, context: Any, width: int, height: int) -> None:
        """``context`` is Playwright's; sizes are CSS pixels."""
        self.context = context
        self.width, self.height = width, height
        self.tabs: list[Tab] = []
        self.adopting: dict[Any, asyncio.Future[None]] = {}
        self.active = 0
        self.closings = 0
        """Tabs that were closed so far, by whomever."""
        self.numbers = Numbers()
        self.notes: list[str] = []
        """Dialogs, downloads, closed tabs, until they are told."""
        self.opening = 0
        """Tabs that a page opens, and that are not known yet."""
        self.downloading = False
        """Whether something was clicked that most likely offers a download, and none was offered yet."""
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
        """The one that is looked at.

        Raises:
            ConnectionError: there is none.
        """
        if not self.tabs:
            raise ConnectionError(f"the last tab {GONE}")
        return self.tabs[self.active]

    @property
    def crashed(self) -> bool:
        """Whether the page that is looked at is gone."""
        return bool(self.tabs) and self.tab.crashed

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
        try:
            await self.meet(page)
        finally:
            self.opening = max(0, self.opening - 1)

    async def meet(self, page: Any) -> None:
        """See ``adopt``."""
        if len(self.tabs) >= MAX_TABS:
            self.note("a new tab was closed: there are too many")
            await page.close()
            return
        try:
            session = await self.context.new_cdp_session(page)
            tab = Tab(page, session)
            await tab.listen()
        except Exception:
            return
        for event in ("Page.frameNavigated", "Page.navigatedWithinDocument"):
            session.on(event, lambda _: self.disturb())
        session.on("Page.windowOpen", lambda _: self.opens())
        page.on("crash", lambda _: self.broke(tab))
        page.on("close", lambda _: self.closed(tab))
        page.on("download", self.offered)
        if self.tabs:
            self.note("a new tab was opened")
        self.tabs.append(tab)
        self.active = len(self.tabs) - 1

    def offered(self, download: Any) -> None:
        """A download is refused, and told."""
        self.downloading = False
        self.note(f"a download was refused: {download.suggested_filename[:200]!r}")

    def opens(self) -> None:
        """A page opens a tab."""
        self.opening += 1

    def disturb(self) -> None:
        """The page may not serve another episode."""
        self.disturbed = True

    def broke(self, tab: Tab) -> None:
        """The process of a page ended."""
        tab.crashed = True
        self.note("the page crashed")

    def closed(self, tab: Tab) -> None:
        """A tab is gone."""
        self.disturbed = True
        if tab in self.tabs:
            self.closings += 1
            at = self.tabs.index(tab)
            self.tabs.remove(tab)
            if self.active >= at:
                self.active = max(0, self.active - 1)

    async def closed_since(self, closings: int, error: Exception) -> bool:
        """Whether an error came of a tab that closed since there were so many ``closings``: a page may close itself in
        the midst of anything.
        """
        if GONE not in str(error):
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_SECONDS):
                while self.closings == closings:
                    await asyncio.sleep(0.005)
        return self.closings > closings

    async def answer(self, dialog: Any) -> None:
        """Dialogs are accepted and told; nobody else would ever answer them."""
        self.note(f"a dialog was accepted ({dialog.type}): {' '.join(dialog.message.split())[:200]!r}")
        with contextlib.suppress(Exception):
            await dialog.accept()

    def note(self, text: str) -> None:
        """Keep what happened until it is told."""
        self.disturbed = True
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)
