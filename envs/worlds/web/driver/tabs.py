"""The browser context of one episode, and its tabs."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from typing import Any

from .observe import Numbers
from .protocol import GONE, Connection, PlaywrightError

MAX_TABS = 8
MAX_NOTES = 5
DETACHED = "frame was detached"
"""The substring of Playwright's error for a navigation in a tab that closes before the page loads."""
CLOSE_EVENT_TIMEOUT_S = 0.5
"""Maximum time between such an error and the event of the closed tab."""
PASSWORD = re.compile("[a-z]+://[^/?#]*@")
"""The beginning of an address with a name or a password."""
LAYOUT_RESOURCES = ("Image", "Stylesheet", "Font")
"""Types of requests that a page's layout waits for."""

TRANSIENT_ERRORS = ("ERR_CONNECTION_", "ERR_EMPTY_RESPONSE", "ERR_NETWORK_CHANGED", "ERR_SOCKET_NOT_CONNECTED")
"""Substrings of errors of a request that may succeed a moment later, as on a server whose backlog was full."""


class Tab:
    """A page, its DevTools session, and its loading state by the events of that session."""

    def __init__(self, page: Any, session: Any, target: str = "") -> None:
        """``page`` is that of Playwright."""
        self._page = page
        self.session = session
        self.target = target
        """The id of the page in the protocol."""
        self.crashed = False
        self.frame = ""
        """The id of the main frame."""
        self.url = ""
        self.document = ""
        """The loader id of the document in view; each navigation changes it, except one to a #fragment."""
        self.parsed = ""
        """The last document that was parsed to its end."""
        self.loading: list[str] = []
        """Documents that were requested and are not in view yet, in order."""
        self.loaded = ""
        """The last document whose images, styles and scripts were loaded."""
        self.requested: set[str] = set()
        """Requests in progress of every type."""
        self.fetching: set[str] = set()
        """Those for images, styles and fonts."""
        self.authenticated = False
        """Whether an address contained a password, which the browser context remembers."""
        self.transient_errors = 0
        """Requests that the server did not answer although it runs."""

    @property
    def page(self) -> Any:
        """The page in Playwright, for an action, which may wait for the events of requests."""
        self.session.connection.report_requests()
        return self._page

    @property
    def navigating(self) -> bool:
        """Whether another document is about to come into view, or the one in view is still being parsed."""
        return bool(self.loading) or self.parsed != self.document

    async def listen(self, width: int, height: int) -> None:
        """Follow the page's events, all on one session, so that an event precedes every later answer.

        The size of the window, in CSS pixels, is fixed: a page may open a tab of another size, or fill the screen.
        """
        self.session.on("Network.requestWillBeSent", self.on_request)
        self.session.on("Network.loadingFinished", lambda event: self.on_finished(event["requestId"]))
        self.session.on("Network.loadingFailed", self.on_failed)
        self.session.on("Page.frameNavigated", lambda event: self.on_navigated(event["frame"]))
        self.session.on("Page.lifecycleEvent", self.on_lifecycle)
        self.session.on("Page.navigatedWithinDocument", self.on_moved)
        self.session.on("Inspector.targetCrashed", lambda _: self.on_crashed())
        answers = await asyncio.gather(
            self.session.start("Page.enable"),
            self.session.start("Page.getFrameTree"),
            self.session.start("Network.enable"),
            self.session.start("Inspector.enable"),
            self.session.start(
                "Emulation.setDeviceMetricsOverride",
                {
                    **{"width": width, "height": height, "screenWidth": width, "screenHeight": height},
                    **{"deviceScaleFactor": 1, "mobile": False},
                },
            ),
        )
        if not self.frame:
            self.on_navigated(answers[1]["frameTree"]["frame"])
        # Chromium now repeats the events of the document in view, which has been recorded above.
        await self.session.send("Page.setLifecycleEventsEnabled", {"enabled": True})

    def on_crashed(self) -> None:
        """Record that the process of the page ended; Chromium would answer no command until the page is replaced."""
        self.crashed = True
        self.session.close("it crashed")

    def on_moved(self, event: Mapping[str, Any]) -> None:
        """Record the new address of the same document."""
        if event["frameId"] == self.frame:
            self.url = event["url"]

    def on_request(self, event: Mapping[str, Any]) -> None:
        """Record a request that the page sends."""
        self.requested.add(event["requestId"])
        self.authenticated |= PASSWORD.match(event["request"]["url"]) is not None
        if event.get("type") in LAYOUT_RESOURCES:
            self.fetching.add(event["requestId"])
        elif event["requestId"] == event["loaderId"] and event.get("frameId") == self.frame:
            # A redirect repeats the event.
            self.loading = [*(one for one in self.loading if one != event["loaderId"]), event["loaderId"]]

    def on_finished(self, request: str) -> None:
        """Record that a request ended."""
        self.requested.discard(request)
        self.fetching.discard(request)

    def on_failed(self, event: Mapping[str, Any]) -> None:
        """Record a request that failed, or whose response is not displayed."""
        self.on_finished(event["requestId"])
        if any(error in event.get("errorText", "") for error in TRANSIENT_ERRORS):
            self.transient_errors += 1
        self.loading = [one for one in self.loading if one != event["requestId"]]

    def on_navigated(self, frame: Mapping[str, Any]) -> None:
        """Record that a frame displays another document."""
        if "parentId" not in frame:
            self.frame, self.document = frame["id"], frame["loaderId"]
            self.url = frame["url"] + frame.get("urlFragment", "")
            if self.document in self.loading:
                self.loading = self.loading[self.loading.index(self.document) + 1 :]

    def on_lifecycle(self, event: Mapping[str, Any]) -> None:
        """Record that a document was parsed or loaded."""
        if event["loaderId"] != self.document:
            return
        if event["name"] == "DOMContentLoaded":
            self.parsed = self.document
        elif event["name"] == "load":
            self.loaded = self.document


class Context:
    """One episode's tabs, the active one, and the events that no page displays."""

    def __init__(self, context: Any, connection: Connection, width: int, height: int) -> None:
        """Wrap a Playwright context; sizes are CSS pixels."""
        self.context = context
        self.connection = connection
        self.width, self.height = width, height
        self.tabs: list[Tab] = []
        self.adopting: dict[Any, asyncio.Future[None]] = {}
        self.active = 0
        self.closings = 0
        """The number of tabs that were closed, by the agent or by pages."""
        self.numbers = Numbers()
        self.notes: list[str] = []
        """Dialogs, downloads and closed tabs since the last observation."""
        self.dialogs = 0
        """Dialogs so far."""
        self.opening = 0
        """Tabs that pages are opening and that are not attached yet."""
        self.downloading = False
        """Whether a download link was clicked whose download has not been offered yet."""
        self.reusable_for_url = ""
        """The address whose page may serve another episode in place; empty if none may."""
        self.pointed = False
        """Whether the pointer was moved onto the page."""
        self.dirty = False
        """Whether anything happened that an in-place reset does not undo."""
        self.id = ""
        """The id of the browser context in the protocol, once a tab is attached."""
        self.episodes = 1
        """Episodes in the browser context so far, this one included."""
        self.leftover = ""
        """The reason that the browser context may keep state of this episode, whatever is cleared; empty if none."""
        self.acted = False
        """Whether the agent or the task acted on a page, which may then have written to the clipboard."""
        self.addressed: Tab | None = None
        """The tab in which the action opened an address."""
        self.expected: asyncio.Future[Any] | None = None
        """The page of a tab that ``open_only_tab`` opens."""
        context.on("page", self.on_page)
        context.on("dialog", self.on_dialog)

    @property
    def tab(self) -> Tab:
        """The active tab. Raises ConnectionError: every tab is closed."""
        if not self.tabs:
            raise ConnectionError(f"the last tab {GONE}")
        return self.tabs[self.active]

    @property
    def crashed(self) -> bool:
        """Whether the page of the active tab crashed."""
        return bool(self.tabs) and self.tab.crashed

    @property
    def has_lost_page(self) -> bool:
        """Whether the tab in which the action opened an address was closed before the page was parsed."""
        tab = self.addressed
        return bool(self.tabs) and tab is not None and tab not in self.tabs and tab.navigating

    def release(self) -> None:
        """Handle no further tabs and dialogs of the browser context, which another episode takes over."""
        self.context.remove_listener("page", self.on_page)
        self.context.remove_listener("dialog", self.on_dialog)

    def begin(self) -> None:
        """Start an episode: discard the numbers, notes and marks of what happened before."""
        self.numbers, self.notes = Numbers(), []
        self.pointed = self.dirty = False

    async def open_tab(self) -> None:
        """Open an empty tab and make it the active one."""
        await self.adopt(await self.context.new_page())

    async def open_only_tab(self, context_id: str) -> None:
        """Open an empty tab in a context in which no page can open one.

        Chromium makes the tab in the size of the window, and Playwright's next page is that of the tab. This saves a
        resize, and the session by which Playwright reports the tab of a page.
        """
        self.expected = asyncio.get_running_loop().create_future()
        browser = await self.connection.browser_session()
        settings = {"url": "about:blank", "browserContextId": context_id, "width": self.width, "height": self.height}
        target = (await browser.send("Target.createTarget", settings))["targetId"]
        page, session = await asyncio.gather(self.expected, self.connection.attach(target))
        self.id = context_id
        await self._follow(page, Tab(page, session, target))

    def adopt(self, page: Any) -> asyncio.Future[None]:
        """Return a future that is done once the tab of a page, opened by the driver or by a page, is attached."""
        if page not in self.adopting:
            self.adopting[page] = asyncio.ensure_future(self._attach(page))
        return self.adopting[page]

    async def _attach(self, page: Any) -> None:
        try:
            await self._listen(page)
        finally:
            self.opening = max(0, self.opening - 1)

    async def _listen(self, page: Any) -> None:
        if len(self.tabs) >= MAX_TABS:
            self.note("a new tab was closed: there are too many")
            self.leftover = "a tab was closed"
            await page.close()
            return
        try:
            found = await (await self.context.new_cdp_session(page)).send("Target.getTargetInfo")
            target = found["targetInfo"]
            self.id = target.get("browserContextId", "")
            session = await self.connection.attach(target["targetId"])
            await self._follow(page, Tab(page, session, target["targetId"]))
        except PlaywrightError:
            # The page closed itself before it was attached.
            self.leftover = "a tab closed itself"

    async def _follow(self, page: Any, tab: Tab) -> None:
        session = tab.session
        await tab.listen(self.width, self.height)
        for event in ("Page.frameNavigated", "Page.navigatedWithinDocument"):
            session.on(event, lambda _: self.on_changed())
        session.on("Page.windowOpen", lambda _: self.on_opening())
        session.on("Inspector.targetCrashed", lambda _: self.note("the page crashed"))
        page.on("close", lambda _: self.on_closed(tab))
        page.on("download", self.on_download)
        if self.tabs:
            self.note("a new tab was opened")
        self.tabs.append(tab)
        self.active = len(self.tabs) - 1

    def on_page(self, page: Any) -> None:
        """Adopt a tab that the driver or a page opened."""
        if self.expected is not None and not self.expected.done():
            self.expected.set_result(page)
        else:
            self.adopt(page)

    def on_dialog(self, dialog: Any) -> None:
        """Accept a dialog."""
        asyncio.ensure_future(self.accept(dialog))  # noqa: RUF006 - ends by itself

    def on_download(self, download: Any) -> None:
        """Note a download; the browser refuses it."""
        self.downloading = False
        self.note(f"a download was refused: {download.suggested_filename[:200]!r}")

    def on_opening(self) -> None:
        """Count a tab that a page opens."""
        self.opening += 1

    def on_changed(self) -> None:
        """Record that the page may not serve another episode."""
        self.dirty = True

    def on_closed(self, tab: Tab) -> None:
        """Forget a tab that is closed."""
        self.dirty = True
        self.leftover = "a tab was closed"
        if tab in self.tabs:
            self.closings += 1
            index = self.tabs.index(tab)
            self.tabs.remove(tab)
            if self.active >= index:
                self.active = max(0, self.active - 1)

    async def closed_since(self, closings: int, error: Exception) -> bool:
        """Return whether a tab that closed after ``closings`` was read caused the error; a page may close any time."""
        if GONE not in str(error) and DETACHED not in str(error):
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_EVENT_TIMEOUT_S):
                while self.closings == closings:
                    await asyncio.sleep(0.005)
        return self.closings > closings

    async def accept(self, dialog: Any) -> None:
        """Accept a dialog, with the text that a prompt offers, and note it; one without an answer blocks its page."""
        offered = f", with {_short(dialog.default_value)}" if dialog.default_value else ""
        self.note(f"a dialog was accepted ({dialog.type}): {_short(dialog.message)}{offered}")
        self.dialogs += 1
        with contextlib.suppress(PlaywrightError):
            await dialog.accept(dialog.default_value)

    def note(self, text: str) -> None:
        """Keep a message for the next observation."""
        self.dirty = True
        if len(self.notes) < MAX_NOTES:
            self.notes.append(text)


def _short(text: str) -> str:
    """Return a text of the page, quoted and cut, on one line."""
    return repr(" ".join(text.split())[:200])
