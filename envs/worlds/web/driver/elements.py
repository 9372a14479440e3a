"""Find the element that a number stands for, and run Playwright's actions on it.

A text or an option that a field cannot hold is refused; Chromium would clear the field, or keep another value.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from .protocol import GONE, PlaywrightError
from .settle import frames_drawn
from .tabs import Context

CLEANUP_TIMEOUT_S = 1.0
KEPT = "turnwise kept"
"""Name of the property in which a page keeps an element for a moment, until Playwright has a handle of it."""
OPTION_ROUNDS = 15
"""Rounds of two frames, .5 s of an idle machine, in which a list must offer an option; frames wait for a busy one."""
DECIDED_TIMEOUT_MS = 1500
"""Time in which Playwright finds out on an idle machine whether an element accepts the pointer."""
LATE_TIMEOUT_MS = 6000
"""Time in which a busy machine must find that out too."""
CLICK_POINT, SELECT_TEXT, MISFIT, CHOICE = (
    (Path(__file__).parent / f"{name}.js").read_text() for name in ("click_point", "select_text", "misfit", "choice")
)
"""Functions that are called on an element; the files describe their values."""
KEEP = """function(name) {
  const element = this.nodeType === 1 ? this : this.parentElement ?? this.getRootNode().host;
  if (element?.isConnected) window[name] = element;
}"""
TAKE = "name => { const kept = window[name]; delete window[name]; return kept; }"

FORMATS = {
    "color": "a color as #rrggbb",
    "date": "a date as YYYY-MM-DD",
    "datetime-local": "a date and a time as YYYY-MM-DDTHH:MM",
    "month": "a month as YYYY-MM",
    "number": "a number such as -3.5",
    "range": "a number that its slider can reach, from {} to {}, such as {}",
    "time": "a time as HH:MM, up to 23:59",
    "week": "a week as YYYY-Www, such as 2024-W09",
    "length": "at most {} characters",
    "line": "a single line",
    "single": "one option, not {}",
}
"""The values that fields hold, by the type of the field or by the limit that the value exceeds."""
ERROR_HINTS = (
    (GONE, f"its page {GONE}"),
    ("intercepts pointer events", "another element covers it"),
    ("not visible", "it is not visible"),
    ("not enabled", "it is disabled"),
    ("not editable", "it is not editable"),
    ("outside of the viewport", "it cannot be scrolled into view"),
    ("not an <input>", "it accepts no text"),
    ("cannot be filled", "it accepts no text"),
    ("Element is not a <select>", "it is not a drop-down list"),
    ("did not find some options", "it has no such option"),
    ("not attached", "it is no longer on the page"),
    ("context was destroyed", "it is no longer on the page"),
)
"""Substrings of Playwright's errors, with the message for the agent."""


MISUSE_HINTS = (": expected ", "SyntaxError", "is not a function", "strict mode violation", "Invalid parameters")
"""Substrings of errors that a call of the driver causes, and no page or action."""
QUOTED = re.compile("[\"'`<\\n]")
"""The end of the part of an error that contains no text of the agent or of the page."""


class DriverError(Exception):
    """The driver called Playwright or Chromium wrongly: a failure of the world."""


class Refused(Exception):
    """The action cannot be executed; the message is for the agent."""


async def resolve(context: Context, number: int) -> str:
    """Return the remote object id of the element with this number. Raises Refused: the page has no such element."""
    document, node = context.numbers.nodes.get(number, ("", 0))
    if document != context.tab.document:
        raise Refused(f"there is no element {number} on this page")
    try:
        found = await context.tab.session.send("DOM.resolveNode", {"backendNodeId": node})
    except PlaywrightError:
        raise Refused(f"element {number} is no longer on the page") from None
    return str(found["object"]["objectId"])


async def click_point(context: Context, number: int) -> tuple[float, float, bool] | str:
    """Return the point where a click hits the element, and whether it is a download link.

    Otherwise return ``"covered"`` if a click would hit another element or none, or ``"unknown"``, because a page may
    replace the functions that are called.

    Raises:
        Refused: the page has no such element.
    """
    found = await _value(context, number, CLICK_POINT, failed="unknown")
    if found is None:
        return "covered"
    if found == "unknown" or not all(isinstance(side, int | float) for side in found[:2]):
        return "unknown"
    return found[0], found[1], found[2]


async def ready_for_text(context: Context, number: int) -> bool:
    """Focus a text field and select its text; return whether that was possible without Playwright.

    Raises:
        Refused: the page has no such element.
    """
    return bool(await _value(context, number, SELECT_TEXT))


async def refuse_misfit(context: Context, number: int, value: str | list[str]) -> None:
    """Do nothing if the element with this number can hold the text or the options, or is not a field.

    Raises:
        Refused: the page has no such element, or the field would hold another value; it is unchanged.
    """
    if found := await _value(context, number, MISFIT, value, [*FORMATS]):
        kind, *values = found
        expected = FORMATS.get(str(kind), "another text").format(*values)
        raise Refused(f"element {number}: it holds {expected}; it is unchanged")


async def choice(context: Context, number: int, options: list[str]) -> str:
    """Return how a drop-down list offers the options, ``label`` or ``value``.

    Raises:
        Refused: the page has no such element, or it does not offer them.
    """
    found: Any = None
    for _ in range(OPTION_ROUNDS):
        found = await _value(context, number, CHOICE, options)
        if found in ("label", "value"):
            return str(found)
        await frames_drawn(context.tab)
    raise Refused(f"element {number}: {found or 'it cannot be done'}")


async def judged(attempt: Callable[[float], Awaitable[Any]], timeout_ms: float = DECIDED_TIMEOUT_MS) -> None:
    """Try what may be repeated, with a timeout in ms, until Playwright succeeds or names the state of the page.

    Raises PlaywrightError.
    """
    try:
        await attempt(timeout_ms)
    except PlaywrightError as error:
        if not _is_undecided(error):
            raise
        await attempt(LATE_TIMEOUT_MS)


def _is_undecided(error: Exception) -> bool:
    """Return whether a timeout expired before Playwright found a reason in the state of the page."""
    text = str(error)
    return "Timeout" in text and not any(substring in text for substring, _ in ERROR_HINTS)


async def _value(context: Context, number: int, function: str, *arguments: Any, failed: Any = None) -> Any:
    """Return the value of a function called on an element; ``failed`` if it raised or the page is gone.

    Raises:
        Refused: the page has no such element.
    """
    handle = await resolve(context, number)
    try:
        return await context.tab.session.call(handle, function, *arguments)
    except PlaywrightError:
        return failed


async def handle_of(context: Context, number: int) -> Any:
    """Return a Playwright handle of the element with this number; no selector finds one in a closed shadow root.

    Raises:
        Refused: the page has no such element.
    """
    remote = await resolve(context, number)
    try:
        await context.tab.session.call(remote, KEEP, KEPT)
        found = (await context.tab.page.evaluate_handle(TAKE, KEPT)).as_element()
    except PlaywrightError:
        found = None
    if found is None:
        raise Refused(f"element {number} is no longer on the page")
    return found


async def on_element(context: Context, number: int, do: Callable[[Any], Awaitable[Any]]) -> None:
    """Run a Playwright action on the element with this number.

    Raises:
        Refused: the page has no such element, or Playwright cannot do it.
        TimeoutError: Playwright has no answer.
    """
    handle = await handle_of(context, number)
    try:
        await do(handle)
    except PlaywrightError as error:
        raise Refused(f"element {number}: {short_error(error)}") from None
    finally:
        with contextlib.suppress(TimeoutError, PlaywrightError):
            async with asyncio.timeout(CLEANUP_TIMEOUT_S):
                await handle.dispose()


def short_error(error: Exception) -> str:
    """Return a Playwright error as one line for the agent.

    Raises:
        DriverError: the error is neither of the page nor of the action.
        TimeoutError: it is a timeout, without a reason in the state of the page.
    """
    text = str(error)
    if _is_undecided(error):
        if "not stable" in text:  # also for a moment on a busy machine, so only a long timeout decides it
            return "it keeps moving"
        raise TimeoutError(first_line(error)) from error
    if any(hint in QUOTED.split(text, maxsplit=1)[0] for hint in MISUSE_HINTS):
        raise DriverError(text) from error
    for substring, message in ERROR_HINTS:
        if substring in text:
            return message
    return first_line(error) or "it cannot be done"


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, cut to a readable length."""
    return (str(error).splitlines() or [""])[0][:160]
