"""Doing what the agent wrote. What cannot be done is said in one line that it can read."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from .settle import SETTLE_SECONDS, drawn, settle
from .tabs import GONE, Context, Tab

PATIENCE_MS = 1500
"""How long an element may take until it can be acted on."""
COVERED_MS = 400
"""The same for a click that would meet another element, or nothing, at once."""
SCROLL = 400
MAX_TYPED = 500
MODIFIERS = ("Shift", "Control", "Alt", "Meta")
MARK = "data-turnwise"
SPOT = """function() {
  const one = this.nodeType === 1 ? this : this.parentElement;
  if (!one || !one.isConnected || !one.checkVisibility({visibilityProperty: true})) return null;
  if (one.matches(':disabled') || one.closest('[aria-disabled=true]')) return null;
  if (getComputedStyle(one).pointerEvents === 'none') return null;
  const inside = box => box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
  const met = () => {
    const box = one.getClientRects()[0];
    if (!box || box.width < 1 || box.height < 1) return null;
    const x = box.left + box.width / 2, y = box.top + box.height / 2;
    const hit = document.elementFromPoint(x, y);
    return hit && (hit === one || one.contains(hit)) ? [x, y, !!one.closest('a[download]')] : null;
  };
  // Out of the window, or out of what scrolls within it.
  const found = inside(one.getBoundingClientRect()) ? met() : null;
  if (found) return found;
  one.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
  return met();
}"""
"""Where a click meets an element now, and whether that is a download's link; null if Playwright has to see to it."""


class Refused(Exception):
    """The action cannot be done; the text is for the agent."""


async def act(context: Context, action: dict[str, Any]) -> None:
    """Do one action and wait for what it began.

    Raises:
        Refused: it cannot be done.
    """
    verb = action["verb"]
    context.pointed |= verb in POINTING
    context.disturbed |= verb not in PLAIN
    closings = context.closings
    try:
        await VERBS[verb](context, action)
    except Exception as error:
        if not await context.closed_since(closings, error):
            raise
    finally:
        await settle(context)


async def handle_of(context: Context, number: int) -> str:
    """The remote object of the element with this number.

    Raises:
        Refused: there is none on this page.
    """
    document, node = context.numbers.nodes.get(number, ("", 0))
    if document != context.tab.document:
        raise Refused(f"there is no element {number} on this page")
    try:
        found = await context.tab.session.send("DOM.resolveNode", {"backendNodeId": node})
    except Exception:
        raise Refused(f"element {number} is gone from the page") from None
    return str(found["object"]["objectId"])


async def spot(context: Context, number: int) -> tuple[float, float, bool] | None:
    """Where a click meets the element now, in CSS pixels of the window; see ``SPOT``. Raises Refused."""
    handle = await handle_of(context, number)
    asked = {"objectId": handle, "functionDeclaration": SPOT, "returnByValue": True}
    try:
        found = (await context.tab.session.send("Runtime.callFunctionOn", asked))["result"].get("value")
    except Exception:
        return None
    return tuple(found) if found else None


async def element(context: Context, number: int) -> tuple[Any, Any]:
    """A locator of the element with this number, and what takes its mark off again.

    Raises:
        Refused: there is none on this page.
    """
    tab = context.tab
    handle = await handle_of(context, number)
    try:
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


async def on_element(context: Context, number: int, do: Any) -> None:
    """Do something with an element, in the words of Playwright where it cannot be done."""
    locator, clean = await element(context, number)
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
        (GONE, f"its page {GONE}"),
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


def place(context: Context, x: float, y: float) -> tuple[float, float]:
    """A place in the window. Raises Refused: it is none."""
    if not (0 <= x < context.width and 0 <= y < context.height):
        raise Refused(f"({x:g}, {y:g}) is not in the window, which is {context.width} x {context.height}")
    return x, y


async def click(context: Context, action: dict[str, Any]) -> None:
    """``click(12)`` or ``click(x, y)``."""
    settings = {"button": action.get("button", "left"), "click_count": action.get("count", 1)}
    if "id" not in action:
        await context.tab.page.mouse.click(*place(context, action["x"], action["y"]), **settings)
    elif at := await spot(context, action["id"]):
        *where, context.downloading = at
        await context.tab.page.mouse.click(*where, **settings)
    else:
        await on_element(context, action["id"], lambda one: one.click(timeout=COVERED_MS, **settings))


async def hover(context: Context, action: dict[str, Any]) -> None:
    """``hover(12)`` or ``hover(x, y)``."""
    if "id" in action:
        await on_element(context, action["id"], lambda one: one.hover(timeout=PATIENCE_MS))
    else:
        await context.tab.page.mouse.move(*place(context, action["x"], action["y"]))


async def fill(context: Context, action: dict[str, Any]) -> None:
    """``fill(3, "text")``: in place of what is there."""
    await on_element(context, action["id"], lambda one: one.fill(action["text"], timeout=PATIENCE_MS))


async def select_option(context: Context, action: dict[str, Any]) -> None:
    """``select_option(3, "an option")``, by what it shows, else by its value."""

    async def choose(one: Any) -> None:
        try:
            await one.select_option(label=action["options"], timeout=PATIENCE_MS / 3)
        except Exception:
            await one.select_option(value=action["options"], timeout=PATIENCE_MS / 3)

    await on_element(context, action["id"], choose)


async def press(context: Context, action: dict[str, Any]) -> None:
    """``press("Enter")``, or ``press(3, "Enter")``."""
    try:
        if "id" in action:
            await on_element(context, action["id"], lambda one: one.press(action["key"], timeout=PATIENCE_MS))
        else:
            await context.tab.page.keyboard.press(action["key"])
    except Exception as error:
        for modifier in MODIFIERS:
            await context.tab.page.keyboard.up(modifier)
        raise error if isinstance(error, Refused) else Refused(f"press: {said(error)}") from None


async def keyboard_type(context: Context, action: dict[str, Any]) -> None:
    """``keyboard_type("text")``: keys, to whatever has the focus; what nobody would type is put there at once."""
    keyboard = context.tab.page.keyboard
    await (keyboard.type if len(action["text"]) <= MAX_TYPED else keyboard.insert_text)(action["text"])


async def scroll(context: Context, action: dict[str, Any]) -> None:
    """``scroll("down")``."""
    steps = {"down": (0, SCROLL), "up": (0, -SCROLL), "right": (SCROLL, 0), "left": (-SCROLL, 0)}
    page = context.tab.page
    await page.mouse.move(context.width / 2, context.height / 2)
    await page.mouse.wheel(*steps[action["direction"]])
    await drawn(context.tab)


async def drag_and_drop(context: Context, action: dict[str, Any]) -> None:
    """``drag_and_drop(3, 7)``, or ``drag_and_drop(x, y, x, y)``."""
    if "id" in action:
        target, clean = await element(context, action["to"])
        try:
            await on_element(context, action["id"], lambda one: one.drag_to(target, timeout=PATIENCE_MS))
        except Refused:
            await context.tab.page.mouse.up()
            raise
        finally:
            await clean()
        return
    mouse = context.tab.page.mouse
    begin, end = place(context, action["x"], action["y"]), place(context, action["to_x"], action["to_y"])
    await mouse.move(*begin)
    await mouse.down()
    await mouse.move(*end, steps=4)
    await mouse.up()


async def goto(context: Context, action: dict[str, Any]) -> None:
    """``goto("http://…")``; which addresses may be gone to was decided before."""
    try:
        await context.tab.page.goto(action["url"], wait_until="commit", timeout=1000 * SETTLE_SECONDS)
    except Exception as error:
        raise Refused(f"goto: {(str(error).splitlines() or [''])[0][:160]}") from None


async def go_back(context: Context, action: dict[str, Any]) -> None:
    """``go_back()`` and ``go_forward()``."""
    page, session = context.tab.page, context.tab.session
    go, step = (page.go_back, -1) if action["verb"] == "go_back" else (page.go_forward, 1)
    history = await session.send("Page.getNavigationHistory")
    found = history["currentIndex"] + step
    # The first one is the empty page that a tab begins with.
    if not 0 <= found < len(history["entries"]) or history["entries"][found]["url"] == "about:blank":
        raise Refused(f"there is nothing to go {action['verb'].removeprefix('go_')} to")
    try:
        await go(wait_until="commit", timeout=1000 * SETTLE_SECONDS)
    except Exception as error:
        raise Refused(f"{action['verb']}: {(str(error).splitlines() or [''])[0][:160]}") from None


async def new_tab(context: Context, action: dict[str, Any]) -> None:
    """``new_tab()``."""
    await context.open_tab()
    context.notes = [note for note in context.notes if note != "a new tab was opened"]


def chosen(context: Context, action: dict[str, Any]) -> Tab:
    """The tab of that number, from 0. Raises Refused."""
    number = int(action.get("tab", context.active))
    if not 0 <= number < len(context.tabs):
        raise Refused(f"there is no tab {number}; there are 0 to {len(context.tabs) - 1}")
    return context.tabs[number]


async def tab_focus(context: Context, action: dict[str, Any]) -> None:
    """``tab_focus(0)``."""
    context.active = context.tabs.index(chosen(context, action))
    await context.tab.page.bring_to_front()


async def tab_close(context: Context, action: dict[str, Any]) -> None:
    """``tab_close()``; the last one stays."""
    if len(context.tabs) == 1:
        raise Refused("the last tab cannot be closed")
    tab = chosen(context, action)
    await tab.page.close()
    context.closed(tab)


async def noop(context: Context, action: dict[str, Any]) -> None:
    """``noop(500)``: milliseconds, within bounds."""
    await asyncio.sleep(min(max(action.get("ms", 500), 0), 3000) / 1000)


PLAIN = ("click", "fill", "select_option", "noop")
"""What leaves nothing behind that the beginning of another episode in the same page does not undo."""
POINTING = ("click", "dblclick", "hover", "drag_and_drop", "scroll", "fill", "select_option", "press")
"""What may move the pointer, Playwright's way of it included."""
VERBS = {
    "click": click,
    "dblclick": click,
    "hover": hover,
    "fill": fill,
    "select_option": select_option,
    "press": press,
    "keyboard_type": keyboard_type,
    "scroll": scroll,
    "drag_and_drop": drag_and_drop,
    "goto": goto,
    "go_back": go_back,
    "go_forward": go_back,
    "new_tab": new_tab,
    "tab_focus": tab_focus,
    "tab_close": tab_close,
    "noop": noop,
}
