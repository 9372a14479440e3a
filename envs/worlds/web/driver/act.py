"""Execute the actions of the agent; an action that cannot be executed is refused in one line that the agent reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from .elements import (
    LATE_TIMEOUT_MS,
    Refused,
    choice,
    click_point,
    first_line,
    judged,
    on_element,
    ready_for_text,
    refuse_misfit,
    short_error,
)
from .protocol import PlaywrightError
from .settle import frames_drawn, settle
from .tabs import Context, Tab

COVERED_TIMEOUT_MS = 400
"""Time in which Playwright finds on an idle machine that a click would hit another element or none."""
MAX_WAIT_MS = 3000
SCROLL_PX = 400
MAX_TYPED_CHARS = 500
"""Longer texts are inserted in one piece instead of key by key."""
MODIFIERS = ("Shift", "Control", "Alt", "Meta")


async def act(context: Context, action: dict[str, Any]) -> None:
    """Execute one action and wait for its effects.

    No ``finally`` here or below awaits the page: after the deadline of the request, the page is given up.

    Raises:
        Refused: the action cannot be executed.
        TimeoutError: Playwright has no answer; ``blame`` decides whose fault it is.
    """
    verb = action["verb"]
    context.pointed |= verb in POINTER_VERBS
    context.dirty |= verb not in RESET_VERBS
    context.acted = True
    context.addressed = None
    await _settled(context, _execute(context, action))
    if context.has_lost_page:
        await _settled(context, goto(context, action))


async def _execute(context: Context, action: dict[str, Any]) -> None:
    """Execute one action; one that closes its tab has succeeded. Raises Refused."""
    closings = context.closings
    try:
        await VERBS[action["verb"]](context, action)
    except Exception as error:
        if not await context.closed_since(closings, error):
            raise


async def _settled(context: Context, work: Awaitable[None]) -> None:
    """Await an action and its effects, which a refused one may have too. Raises the error of the action."""
    try:
        await work
    except Exception:
        await settle(context)
        raise
    await settle(context)


def viewport_point(context: Context, x: float, y: float) -> tuple[float, float]:
    """Return the point. Raises Refused if it is outside the window."""
    if not (0 <= x < context.width and 0 <= y < context.height):
        raise Refused(f"({x:g}, {y:g}) is outside the window of {context.width} x {context.height}")
    return x, y


async def click(context: Context, action: dict[str, Any]) -> None:
    """Execute ``click(12)``, ``click(x, y)`` or ``dblclick``."""
    button, count = action.get("button", "left"), action.get("count", 1)
    if "id" not in action:
        x, y = viewport_point(context, action["x"], action["y"])
        await context.tab.session.click(x, y, button, count)
        return
    found = await click_point(context, action["id"])
    if isinstance(found, str):
        settings = {"button": button, "click_count": count}

        async def press_button(one: Any) -> None:
            first_ms = (COVERED_TIMEOUT_MS,) if found == "covered" else ()
            await judged(lambda ms: one.click(**settings, timeout=ms, trial=True), *first_ms)
            await one.click(**settings, timeout=LATE_TIMEOUT_MS)

        await on_element(context, action["id"], press_button)
    else:
        x, y, context.downloading = found
        await context.tab.session.click(x, y, button, count)


async def hover(context: Context, action: dict[str, Any]) -> None:
    """Execute ``hover(12)`` or ``hover(x, y)``."""
    if "id" in action:
        await on_element(context, action["id"], _hover)
    else:
        await context.tab.page.mouse.move(*viewport_point(context, action["x"], action["y"]))


async def _hover(one: Any, **settings: Any) -> None:
    await judged(lambda ms: one.hover(timeout=ms, **settings))


async def fill(context: Context, action: dict[str, Any]) -> None:
    """Execute ``fill(3, "text")``, which replaces the present text."""
    await refuse_misfit(context, action["id"], action["text"])
    if action["text"] and await ready_for_text(context, action["id"]):
        await context.tab.session.send("Input.insertText", {"text": action["text"]})
    else:
        await on_element(context, action["id"], lambda one: judged(lambda ms: one.fill(action["text"], timeout=ms)))


async def select_option(context: Context, action: dict[str, Any]) -> None:
    """Execute ``select_option(3, "an option")``, by the option's text, else by its value."""
    if len(action["options"]) > 1:
        await refuse_misfit(context, action["id"], action["options"])
    chosen: dict[str, Any] = {await choice(context, action["id"], action["options"]): action["options"]}
    await on_element(context, action["id"], lambda one: one.select_option(**chosen, timeout=LATE_TIMEOUT_MS))


async def press(context: Context, action: dict[str, Any]) -> None:
    """Execute ``press("Enter")`` or ``press(3, "Enter")``."""
    try:
        if "id" in action:
            await on_element(context, action["id"], lambda one: one.press(action["key"], timeout=LATE_TIMEOUT_MS))
        else:
            await context.tab.page.keyboard.press(action["key"])
    except (Refused, PlaywrightError) as error:
        for modifier in MODIFIERS:
            await context.tab.page.keyboard.up(modifier)
        raise error if isinstance(error, Refused) else Refused(f"press: {short_error(error)}") from None


async def keyboard_type(context: Context, action: dict[str, Any]) -> None:
    """Execute ``keyboard_type("text")``: key by key into the focused element, a long text in one piece."""
    keyboard = context.tab.page.keyboard
    await (keyboard.type if len(action["text"]) <= MAX_TYPED_CHARS else keyboard.insert_text)(action["text"])


async def scroll(context: Context, action: dict[str, Any]) -> None:
    """Execute ``scroll("down")`` with the wheel over the middle of the window."""
    steps = {"down": (0, SCROLL_PX), "up": (0, -SCROLL_PX), "right": (SCROLL_PX, 0), "left": (-SCROLL_PX, 0)}
    page = context.tab.page
    await page.mouse.move(context.width / 2, context.height / 2)
    await page.mouse.wheel(*steps[action["direction"]])
    await frames_drawn(context.tab)


async def drag_and_drop(context: Context, action: dict[str, Any]) -> None:
    """Execute ``drag_and_drop(3, 7)`` or ``drag_and_drop(x, y, x, y)``."""
    if "id" in action:

        async def drop_on(target: Any) -> None:
            await _hover(target, trial=True)
            await on_element(context, action["id"], lambda source: drag(context, source, target))

        await on_element(context, action["to"], drop_on)
        return
    mouse = context.tab.page.mouse
    start = viewport_point(context, action["x"], action["y"])
    end = viewport_point(context, action["to_x"], action["to_y"])
    await mouse.move(*start)
    await mouse.down()
    await mouse.move(*end, steps=4)
    await mouse.up()


async def drag(context: Context, source: Any, target: Any) -> None:
    """Drag one element onto another. Raises PlaywrightError."""
    mouse = context.tab.page.mouse
    await _hover(source)
    await mouse.down()
    try:
        # The page gets no events of the pointer during a drag, for which Playwright would wait.
        await target.hover(timeout=LATE_TIMEOUT_MS, force=True)
    except Exception:
        await mouse.up()
        raise
    await mouse.up()


async def goto(context: Context, action: dict[str, Any]) -> None:
    """Execute ``goto("http://…")``; the host has checked the address.

    If a page closes the active tab before the new page is parsed, the address is opened in the tab that becomes active;
    ``act`` does so if the tab closes after the new page has come into view.
    """
    closings = context.closings
    try:
        try:
            await _open(context, action["url"])
        except Exception as error:
            if not await context.closed_since(closings, error):
                raise
            await _open(context, action["url"])
    except (PlaywrightError, ConnectionError) as error:
        raise Refused(f"goto: {first_line(error)}") from None


async def _open(context: Context, url: str) -> None:
    context.addressed = context.tab
    await context.addressed.page.goto(url, wait_until="commit", timeout=0)


async def go_back(context: Context, action: dict[str, Any]) -> None:
    """Execute ``go_back()``."""
    await _go(context, context.tab.page.go_back, -1, "go_back: there is no previous page")


async def go_forward(context: Context, action: dict[str, Any]) -> None:
    """Execute ``go_forward()``."""
    await _go(context, context.tab.page.go_forward, 1, "go_forward: there is no next page")


async def _go(context: Context, go: Any, step: int, refusal: str) -> None:
    history = await context.tab.session.send("Page.getNavigationHistory")
    target = history["currentIndex"] + step
    # A tab's first entry is the empty page that it was opened with.
    if not 0 <= target < len(history["entries"]) or history["entries"][target]["url"] == "about:blank":
        raise Refused(refusal)
    try:
        await go(wait_until="commit", timeout=0)
    except PlaywrightError as error:
        raise Refused(f"{refusal.partition(':')[0]}: {first_line(error)}") from None


async def new_tab(context: Context, action: dict[str, Any]) -> None:
    """Execute ``new_tab()``."""
    await context.open_tab()
    context.notes = [note for note in context.notes if note != "a new tab was opened"]


def _tab(context: Context, action: dict[str, Any]) -> Tab:
    """Return the tab with the action's number, from 0. Raises Refused if there is none."""
    number = int(action.get("tab", context.active))
    if not 0 <= number < len(context.tabs):
        raise Refused(f"there is no tab {number}; the tabs are 0 to {len(context.tabs) - 1}")
    return context.tabs[number]


async def tab_focus(context: Context, action: dict[str, Any]) -> None:
    """Execute ``tab_focus(0)``."""
    context.active = context.tabs.index(_tab(context, action))
    await context.tab.page.bring_to_front()


async def tab_close(context: Context, action: dict[str, Any]) -> None:
    """Execute ``tab_close()``; the last tab stays open."""
    if len(context.tabs) == 1:
        raise Refused("the last tab cannot be closed")
    tab = _tab(context, action)
    await tab.page.close()
    context.on_closed(tab)


async def noop(context: Context, action: dict[str, Any]) -> None:
    """Execute ``noop(500)``: wait that many milliseconds, within bounds."""
    await asyncio.sleep(min(max(action.get("ms", 500), 0), MAX_WAIT_MS) / 1000)


RESET_VERBS = ("click", "fill", "select_option", "noop")
"""Actions whose effects an in-place reset undoes."""
POINTER_VERBS = ("click", "dblclick", "hover", "drag_and_drop", "scroll", "fill", "select_option", "press")
"""Actions that may move the pointer, by Playwright's implementation too."""
VERBS = {
    action.__name__: action
    for action in (
        *(click, hover, fill, select_option, press, keyboard_type, scroll, drag_and_drop),
        *(goto, go_back, go_forward, new_tab, tab_focus, tab_close, noop),
    )
} | {"dblclick": click}
