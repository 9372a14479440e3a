"""The frequent commands of a page on the driver's own session: pointer, text, and JavaScript."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from .protocol import PlaywrightError, Session

BUTTONS = {"left": 1, "right": 2, "middle": 4}
"""Bits of the pressed buttons."""


class ScriptError(PlaywrightError):  # type: ignore[misc]
    """A script of the task or of the driver raised in the page."""


async def move(session: Session, x: float, y: float) -> None:
    """Move the pointer, in CSS pixels of the window. Raises ProtocolError."""
    await session.send("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y, "button": "none"})


async def click(session: Session, x: float, y: float, button: str = "left", count: int = 1) -> None:
    """Move the pointer and click ``count`` times. Raises ProtocolError."""
    point = {"x": x, "y": y}
    sent = [session.start("Input.dispatchMouseEvent", {**point, "type": "mouseMoved", "button": "none"})]
    for number in range(1, count + 1):
        pressed = {**point, "button": button, "clickCount": number}
        down = {**pressed, "type": "mousePressed", "buttons": BUTTONS[button], "force": 0.5}
        sent.append(session.start("Input.dispatchMouseEvent", down))
        sent.append(session.start("Input.dispatchMouseEvent", {**pressed, "type": "mouseReleased", "buttons": 0}))
    await asyncio.gather(*sent)


async def evaluate(session: Session, expression: str) -> Any:
    """Return the value of an expression, or of its promise, as JSON allows.

    Raises:
        ScriptError: the expression raised.
        ProtocolError: the page was replaced or closed.
    """
    request = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    return _value(await session.send("Runtime.evaluate", request))


async def call(session: Session, handle: str, function: str, *arguments: Any) -> Any:
    """Return the value of a function called on a remote object, as JSON allows.

    Raises:
        ScriptError: the function raised, as one of the page may that it calls.
        ProtocolError: the page was replaced or closed.
    """
    request = {
        "objectId": handle,
        "functionDeclaration": function,
        "arguments": [{"value": argument} for argument in arguments],
        "returnByValue": True,
    }
    return _value(await session.send("Runtime.callFunctionOn", request))


def _value(answer: Mapping[str, Any]) -> Any:
    if "exceptionDetails" in answer:
        details = answer["exceptionDetails"]
        raise ScriptError(str(details.get("exception", {}).get("description") or details.get("text", ""))[:1000])
    return answer["result"].get("value")
