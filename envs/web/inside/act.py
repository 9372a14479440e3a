"""Doing what the agent wrote. What cannot be done is said in one line that it can read."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from .browser import Browser, Tab

PATIENCE_MS = 1500
"""How long an element may take until it can be acted on."""
SETTLE_SECONDS = 3.0
"""How long a navigation that an action began may take before the page is looked at as it is."""
SCROLL = 400
MARK = "data-turnwise"


class Refused(Exception):
    """The action cannot be done; the text is for the agent."""


async def act(browser: Browser, action: dict[str, Any]) -> None:
    """Do one action and wait for what it began.

    Raises:
        Refused: it cannot be done.
    """
    verb = action["verb"]
    if not browser.tabs and verb not in ("new_tab",):
        raise Refused("there is no tab; new_tab() opens one")
    await VERBS[verb](browser, action)
    await settle(browser)


async def settle(browser: Browser) -> None:
    """Wait until the page in view shows what the last action began."""
    if not browser.tabs:
        return
    tab = browser.tab
    with contextlib.suppress(Exception):
        async with asyncio.timeout(SETTLE_SECONDS):
            # A round through the page: whatever navigation the action began has been announced by then.
            await tab.page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while tab.loading and tab in browser.tabs and not tab.crashed:
                await asyncio.sleep(0.005)
            with contextlib.suppress(Exception):
                await tab.page.wait_for_load_state("domcontentloaded")


async def element(browser: Browser, number: int) -> tuple[Any, Any]:
    """A locator of the element with this number, and what takes its mark off again.

    Raises:
        Refused: there is none on this page.
    """
    tab = browser.tab
    document, node = browser.numbers.nodes.get(number, (0, 0))
    if document != tab.document:
        raise Refused(f"there is no element {number} on this page")
    try:
        found = await tab.session.send("DOM.resolveNode", {"backendNodeId": node})
        handle = found["object"]["objectId"]
        done = await tab.session.send(
            "Runtime.callFunctionOn",
            {
                "objectId": handle,
                "functionDeclaration": (
                    "function(name, value) { const one = this.nodeType === 1 ? this : this.parentElement;"
                    " if (!one || !one.isConnected) return false; one.setAttribute(name, value); return true; }"
                ),
                "arguments": [{"value": MARK}, {"value": str(number)}],
                "returnByValue": True,
            },
        )
    except Exception:
        raise Refused(f"element {number} is gone from the page") from None
    if not done["result"].get("value"):
        raise Refused(f"element {number} is gone from the page")

    async def clean() -> None:
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1.0):
                await tab.session.send(
                    "Runtime.callFunctionOn",
                    {
                        "objectId": handle,
                        "functionDeclaration": (
                            "function(name) { const one = this.nodeType === 1 ? this : this.parentElement;"
                            " if (one) one.removeAttribute(name); }"
                        ),
                        "arguments": [{"value": MARK}],
                    },
                )

    return tab.page.locator(f'[{MARK}="{number}"]').first, clean


async def on_element(browser: Browser, number: int, do: Any) -> None:
    """Do something with an element, in the words of Playwright where it cannot be done."""
    locator, clean = await element(browser, number)
    try:
        await do(locator)
    except Exception as error:
        raise Refused(f"element {number}: {said(error)}") from None
    finally:
        await clean()


def said(error: Exception) -> str:
    """The line of a Playwright error that tells what was in the way."""
    text = str(error)
    for hint, told in (
        ("intercepts pointer events", "another element lies over it"),
        ("not visible", "it is not visible"),
        ("not enabled", "it is disabled"),
        ("not editable", "it cannot be edited"),
        ("outside of the viewport", "it cannot be scrolled into view"),
        ("not an <input>", "it takes no text"),
        ("Element is not a <select>", "it is no list to select from"),
        ("did not find some options", "it has no such option"),
        ("Timeout", "it did not become ready"),
    ):
        if hint in text:
            return told
    return (text.splitlines() or ["it cannot be done"])[0][:160]


async def click(browser: Browser, action: dict[str, Any]) -> None:
    """``click(12)`` or ``click(x, y)``."""
    settings = {"button": action.get("button", "left"), "click_count": action.get("count", 1)}
    if "id" in action:
        await on_element(browser, action["id"], lambda one: one.click(timeout=PATIENCE_MS, **settings))
    else:
        await browser.tab.page.mouse.click(action["x"], action["y"], **settings)


async def hover(browser: Browser, action: dict[str, Any]) -> None:
    """``hover(12)`` or ``hover(x, y)``."""
    if "id" in action:
        await on_element(browser, action["id"], lambda one: one.hover(timeout=PATIENCE_MS))
    else:
        await browser.tab.page.mouse.move(action["x"], action["y"])


async def fill(browser: Browser, action: dict[str, Any]) -> None:
    """``fill(3, "text")``: in place of what is there."""
    await on_element(browser, action["id"], lambda one: one.fill(action["text"], timeout=PATIENCE_MS))


async def select(browser: Browser, action: dict[str, Any]) -> None:
    """``select(3, "an option")``, by what it shows, else by its value."""

    async def choose(one: Any) -> None:
        try:
            await one.select_option(label=action["options"], timeout=PATIENCE_MS / 3)
        except Exception:
            await one.select_option(value=action["options"], timeout=PATIENCE_MS / 3)

    await on_element(browser, action["id"], choose)


async def press(browser: Browser, action: dict[str, Any]) -> None:
    """``press("Enter")``, or ``press(3, "Enter")``."""
    try:
        if "id" in action:
            await on_element(browser, action["id"], lambda one: one.press(action["key"], timeout=PATIENCE_MS))
        else:
            await browser.tab.page.keyboard.press(action["key"])
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"press: {said(error)}") from None


async def type_text(browser: Browser, action: dict[str, Any]) -> None:
    """``type("text")``: keys, to whatever has the focus."""
    await browser.tab.page.keyboard.type(action["text"])


async def scroll(browser: Browser, action: dict[str, Any]) -> None:
    """``scroll("down")``."""
    steps = {"down": (0, SCROLL), "up": (0, -SCROLL), "right": (SCROLL, 0), "left": (-SCROLL, 0)}
    page = browser.tab.page
    await page.mouse.move(action.get("x", browser.width / 2), action.get("y", browser.height / 2))
    await page.mouse.wheel(*steps[action["direction"]])


async def drag(browser: Browser, action: dict[str, Any]) -> None:
    """``drag(3, 7)``, or ``drag(x, y, x, y)``."""
    if "id" in action:
        target, clean = await element(browser, action["to"])
        try:
            await on_element(browser, action["id"], lambda one: one.drag_to(target, timeout=PATIENCE_MS))
        finally:
            await clean()
        return
    mouse = browser.tab.page.mouse
    await mouse.move(action["x"], action["y"])
    await mouse.down()
    await mouse.move(action["to_x"], action["to_y"], steps=4)
    await mouse.up()


async def goto(browser: Browser, action: dict[str, Any]) -> None:
    """``goto("http://…")``; which addresses may be gone to was decided before."""
    try:
        await browser.tab.page.goto(action["url"], wait_until="commit", timeout=1000 * SETTLE_SECONDS)
    except Exception as error:
        raise Refused(f"goto: {(str(error).splitlines() or [''])[0][:160]}") from None


async def back(browser: Browser, action: dict[str, Any]) -> None:
    """``back()`` and ``forward()``."""
    page = browser.tab.page
    go = page.go_back if action["verb"] == "back" else page.go_forward
    try:
        if await go(wait_until="commit", timeout=1000 * SETTLE_SECONDS) is None:
            raise Refused(f"there is nothing to go {action['verb']} to")
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{action['verb']}: {(str(error).splitlines() or [''])[0][:160]}") from None


async def new_tab(browser: Browser, action: dict[str, Any]) -> None:
    """``new_tab()``."""
    await browser.open_tab()
    browser.notes = [note for note in browser.notes if note != "a new tab was opened"]


def chosen(browser: Browser, action: dict[str, Any]) -> Tab:
    """The tab of that number, from 0. Raises Refused."""
    number = int(action.get("tab", browser.active))
    if not 0 <= number < len(browser.tabs):
        raise Refused(f"there is no tab {number}; there are 0 to {len(browser.tabs) - 1}")
    return browser.tabs[number]


async def switch_tab(browser: Browser, action: dict[str, Any]) -> None:
    """``switch_tab(0)``."""
    browser.active = browser.tabs.index(chosen(browser, action))
    await browser.tab.page.bring_to_front()


async def close_tab(browser: Browser, action: dict[str, Any]) -> None:
    """``close_tab()``; the last one stays."""
    if len(browser.tabs) == 1:
        raise Refused("the last tab cannot be closed")
    tab = chosen(browser, action)
    await tab.page.close()
    browser.closed(tab)


async def wait(browser: Browser, action: dict[str, Any]) -> None:
    """``wait(500)``: milliseconds, within bounds."""
    await asyncio.sleep(min(max(action.get("ms", 500), 0), 3000) / 1000)


VERBS = {
    "click": click,
    "hover": hover,
    "fill": fill,
    "select": select,
    "press": press,
    "type": type_text,
    "scroll": scroll,
    "drag": drag,
    "goto": goto,
    "back": back,
    "forward": back,
    "new_tab": new_tab,
    "switch_tab": switch_tab,
    "close_tab": close_tab,
    "wait": wait,
}
