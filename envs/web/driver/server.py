"""Answers requests about the browser, one at a time, on a unix socket: a JSON object in, a line of JSON and the bytes
of a screenshot out. See the package.

A request is a list of steps, done in order until one fails: ``open`` (a context of its own at a url, then a script),
``act``, ``script`` (its value comes back), ``look``. All of it has one deadline; what overruns it costs the page.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from typing import Any

from playwright.async_api import Error as PlaywrightError

from .act import Refused, act
from .browser import Browser
from .observe import MAX_TEXT, look, short
from .settle import settle
from .tabs import Context

OPEN_SECONDS = 10.0
LOAD_SECONDS = 3.0
"""How long what a page loads may take after it was read, before it is looked at as it is."""
LOOKS = 4
"""How often a page is looked at that is replaced meanwhile."""
REPLACE_SECONDS = 12.0
"""For another browser: it starts in one, on a machine that has nothing else to do."""
MAX_LINE = 1 << 20


class Driver:
    """One browser and who asks for it."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.turn = asyncio.Lock()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a request, its answer, the end."""
        try:
            request = json.loads(await reader.read(-1))
            async with self.turn:
                answer, shot = await self.do(request)
            # A page may say half a character.
            writer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n" + shot)
            await writer.drain()
        except (ValueError, OSError):
            pass
        finally:
            writer.close()

    async def do(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Every step, within the deadline; ``lost`` says that the page was given up."""
        answer: dict[str, Any] = {}
        shot = b""
        try:
            async with asyncio.timeout(request["deadline"]):
                for step in request["steps"]:
                    shot = await self.surely(step, answer) or shot
                    if self.browser.here.crashed:
                        raise ConnectionError("it crashed")
        except Exception as error:
            late = isinstance(error, TimeoutError)
            answer["lost"] = "the page did not respond" if late else f"the page was lost: {str(error)[:200]}"
            try:
                async with asyncio.timeout(REPLACE_SECONDS):
                    await self.browser.replace(f"{answer['lost']}; it was closed")
            except Exception as worse:
                answer["broken"] = f"{type(worse).__name__}: {worse}"[:300]
        return answer, shot

    async def surely(self, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """One step. A tab that closed itself meanwhile is no loss: what was only to be read is read once more."""
        while True:
            context = self.browser.context
            if context is None or step["do"] == "open":
                return await self.step(step, answer)
            if not context.tabs:
                await context.open_tab()
                context.note("the last tab was closed; this is another one")
            closings = context.closings
            try:
                return await self.step(step, answer)
            except Exception as error:
                if not await context.closed_since(closings, error):
                    raise
                if step["do"] == "act":
                    return b""

    async def step(self, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """One step; what it found is put into ``answer``."""
        kind = step["do"]
        if kind == "open":
            if await self.browser.begin(step["width"], step["height"], step["url"] if step.get("keep") else ""):
                page = self.browser.here.tab.page
                await page.goto(step["url"], wait_until="domcontentloaded", timeout=1000 * OPEN_SECONDS)
                with contextlib.suppress(TimeoutError, PlaywrightError):
                    await page.wait_for_load_state("load", timeout=1000 * LOAD_SECONDS)
                await settle(self.browser.here)
            self.browser.here.begin()
            return b""
        context = self.browser.here
        if kind == "act":
            try:
                await act(context, step["action"])
            except Refused as refusal:
                answer["refused"] = str(refusal)
        elif kind == "script":
            answer.setdefault("values", []).append(await context.tab.page.evaluate(step["script"]))
            if step.get("settle"):
                await settle(context)
        elif kind == "look":
            return await self.look(context, step, answer)
        return b""

    async def look(self, context: Context, step: dict[str, Any], answer: dict[str, Any]) -> bytes:
        """What there is to see."""
        for _ in range(LOOKS):
            tab, document = context.tab, context.tab.document
            if step.get("tree", True):
                title, nodes, more = await look(tab.session, context.width, context.height)
            else:
                title, nodes, more = short(await tab.page.title(), MAX_TEXT), [], 0
            if (tab, document) == (context.tab, tab.document):
                break
            await settle(context)
        context.numbers.give(document, nodes)
        answer["nodes"], answer["more"] = nodes, more
        answer["tabs"] = [[short(one.page.url, MAX_TEXT), title if one is tab else ""] for one in context.tabs]
        answer["active"] = context.active
        shot = b""
        if step.get("screenshot"):
            taken = await tab.session.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True})
            shot = base64.b64decode(taken["data"])
        if step.get("notes", True):
            answer["notes"], context.notes = context.notes, []
        return shot


async def listen(path: str) -> None:
    """Start a browser, then answer for ever."""
    browser = Browser()
    await browser.begin(640, 480)
    server = await asyncio.start_unix_server(Driver(browser).serve, path, limit=MAX_LINE)
    async with server:
        await server.serve_forever()


def main(path: str) -> None:
    """Listen on a unix socket at ``path``."""
    asyncio.run(listen(path))
