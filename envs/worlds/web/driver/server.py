"""Answer requests about the browser, one at a time, on a unix socket.

A request is a JSON object with ``deadline`` in seconds and ``steps``, executed in order until one fails:

* ``end``: end the episode, so that its page sends no request to the site of the next one.
* ``open``: a new tab in an empty context at ``url``; if ``reusable``, a kept page of an earlier episode may serve.
* ``act``: one ``action``; ``refused`` in the answer is the reason if it was not executed.
* ``script``: one expression, whose value is appended to ``values`` of the answer.
* ``observe``: tabs, nodes, notes and, after the line of JSON, the bytes of a PNG.

If the steps overrun the deadline, or the page is lost otherwise, the page is given up: ``lost`` in the answer is the
reason, and ``fault`` is ``page`` or ``machine``. ``broken`` is the reason that no new browser started, ``failed`` an
error of the driver itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

from .act import act
from .blame import Watch
from .browser import Browser
from .chromium import Chromium
from .elements import Refused
from .observe import MAX_STRING_CHARS, observe, shorten
from .protocol import PlaywrightError, ProtocolError
from .settle import load, settle
from .tabs import Context

LOG = logging.getLogger(__name__)

OPEN_ATTEMPTS = 3
OBSERVE_ATTEMPTS = 4
"""Attempts to observe a page that another one keeps replacing."""
NAVIGATED = ("navigated or closed", "context was destroyed", "Cannot find default execution context")
"""Substrings of Chromium's errors for a script whose page was replaced."""
REPLACE_TIMEOUT_S = 15.0
"""Limit of the restart of Chromium, which takes one second on an idle machine. Both attempts fit in
(``browser.RESTART_TIMEOUTS_S``), with the restart of Playwright between them (``browser.CLOSE_TIMEOUT_S``).
"""
MAX_LINE_BYTES = 1 << 20


class Driver:
    """The server of one browser; requests wait for one another."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.lock = asyncio.Lock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the one request of a connection."""
        try:
            request = json.loads(await reader.read(-1))
            async with self.lock:
                answer, png = await self.do(request)
            # Page text may contain half of a surrogate pair.
            writer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n" + png)
            await writer.drain()
        except (ValueError, OSError):
            pass
        finally:
            writer.close()

    async def do(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Execute the steps within the deadline and return the answer, with the reason if a step failed."""
        answer: dict[str, Any] = {}
        png = b""
        watch = Watch(self.browser, request["deadline"])
        try:
            async with asyncio.timeout(request["deadline"]):
                for step in request["steps"]:
                    png = await self.step_retrying_closed_tab(step, answer) or png
                    if self.browser.context and self.browser.context.crashed:
                        raise ConnectionError("it crashed")
        except TimeoutError:
            answer["lost"] = "the page did not respond"
            answer["fault"] = watch.at_fault()
            LOG.warning("the page did not respond; at fault is the %s", answer["fault"])
        except (PlaywrightError, OSError) as error:
            answer["lost"], answer["fault"] = f"the page was lost: {str(error)[:200]}", "page"
            LOG.warning(answer["lost"], exc_info=True)
        except Exception as error:
            LOG.exception("the driver failed")
            answer["failed"] = f"{type(error).__name__}: {error}"[:300]
        finally:
            watch.stop()
        if "lost" in answer:
            try:
                async with asyncio.timeout(REPLACE_TIMEOUT_S):
                    await self.browser.replace(f"{answer['lost']}; it was closed")
            except Exception as worse:
                LOG.exception("the browser could not be replaced")
                answer["broken"] = f"{type(worse).__name__}: {worse}"[:300]
        return answer, png

    async def step_retrying_closed_tab(self, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """Execute one step. If the tab closes itself during the step, repeat the step unless it is an action."""
        while True:
            context = self.browser.context
            if context is None or step["do"] in ("end", "open"):
                return await self.step(step, answer)
            if not context.tabs:
                await context.open_tab()
                context.note("the last tab was closed; an empty one was opened")
            closings = context.closings
            try:
                return await self.step(step, answer)
            except Exception as error:
                if not await context.closed_since(closings, error):
                    raise
                if step["do"] == "act":
                    return b""

    async def step(self, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """Execute one step, add its results to ``answer``, and return the PNG if it takes one."""
        kind = step["do"]
        if kind == "end":
            await self.browser.end()
            return b""
        if kind == "open":
            await self.open(step)
            return b""
        context = self.browser.current
        if kind == "act":
            try:
                await act(context, step["action"])
            except Refused as refusal:
                answer["refused"] = str(refusal)
        elif kind == "script":
            answer.setdefault("values", []).append(await self.script(context, step["script"]))
            if step.get("settle"):
                await settle(context)
        elif kind == "observe":
            return await self.observe(context, step, answer)
        return b""

    async def script(self, context: Context, expression: str) -> Any:
        """Return the value of an expression in the page; another page may replace it meanwhile."""
        for _ in range(OBSERVE_ATTEMPTS - 1):
            try:
                return await context.tab.session.evaluate(expression)
            except ProtocolError as error:
                if not any(one in str(error) for one in NAVIGATED):
                    raise
            await settle(context)
        return await context.tab.session.evaluate(expression)

    async def open(self, step: dict[str, Any]) -> None:
        """Start an episode at an address."""
        reusable_for_url = step["url"] if step.get("reusable") else ""
        if await self.browser.begin(step["width"], step["height"], reusable_for_url):
            for _ in range(OPEN_ATTEMPTS):
                tab = self.browser.current.tab
                tab.transient_errors = 0
                await load(tab, step["url"])
                await settle(self.browser.current)
                # A page without one of its scripts would be another task.
                if not tab.transient_errors:
                    break
                LOG.warning("%d requests of %s failed; it is opened again", tab.transient_errors, step["url"])
        self.browser.current.begin()

    async def observe(self, context: Context, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """Add tabs, nodes and notes to the answer, and return the PNG if the step requests one."""
        for _ in range(OBSERVE_ATTEMPTS):
            tab, document = context.tab, context.tab.document
            if step.get("tree", True):
                title, nodes, omitted = await observe(tab.session, context.width, context.height)
            else:
                title = shorten(str(await self.script(context, "document.title")), MAX_STRING_CHARS)
                nodes, omitted = [], 0
            if (tab, document) == (context.tab, tab.document):
                break
            await settle(context)
        context.numbers.assign(document, nodes)
        answer["nodes"], answer["omitted"] = nodes, omitted
        tabs = [[shorten(one.url, MAX_STRING_CHARS), title if one is tab else ""] for one in context.tabs]
        answer["tabs"], answer["active"] = tabs, context.active
        png = b""
        if step.get("screenshot"):
            taken = await tab.session.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
            png = base64.b64decode(taken["data"])
        if step.get("notes", True):
            answer["notes"], context.notes = context.notes, []
        return png


async def listen(path: str, launcher: str) -> None:
    """Start a browser and answer requests until killed."""
    processes = Chromium(str(Path(path).parent), launcher)
    processes.listen()
    browser = Browser(processes)
    await browser.begin(640, 480)
    server = await asyncio.start_unix_server(Driver(browser).serve, path, limit=MAX_LINE_BYTES)
    async with server:
        await server.serve_forever()


def main(path: str, launcher: str) -> None:
    """Listen on a unix socket at ``path``, in a private folder; ``launcher`` is the launcher's socket."""
    asyncio.run(listen(path, launcher))
