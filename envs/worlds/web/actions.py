"""Parse an action of the agent: the last line of its text, written as one call with BrowserGym's verbs.

``click(12)``, ``fill(3, "text")``, ``goto("http://…")``. A number is the number of an element in the observation. Two
numbers in place of one element are CSS pixel coordinates of the window, for policies that see screenshots. Parsing
never raises: text that is not an action becomes an ``InvalidAction`` whose message the agent reads.

To add a verb: a row in ``VERBS`` here, and its function in ``driver/act.py``.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..computer.calls import (
    Action,
    Dialect,
    Invalid,
    InvalidAction,
    Verb,
    coordinate,
    lines,
    number,
    one_of,
    string,
    target,
)

__all__ = ["ANSWER", "DIALECT", "VERBS", "Action", "InvalidAction", "parse"]

DIRECTIONS = ("up", "down", "left", "right")
BUTTONS = ("left", "middle", "right")
ANSWER = "send_msg_to_user"
"""The verb that ends an episode; its text is the agent's answer."""


def parse(text: str, origins: tuple[str, ...] = ()) -> Action | InvalidAction:
    """Return the action on the last line of ``text``.

    ``goto`` accepts http(s) addresses of ``origins`` only, such as ``http://127.0.0.1:8000``.
    """
    action = DIALECT.parse(text)
    if isinstance(action, Action) and action.verb == "goto" and not _allowed(action.arguments["url"], origins):
        return InvalidAction(f"goto accepts full addresses of {' or '.join(origins) or 'this site'} only")
    return action


def _allowed(url: str, origins: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" in origins


def _click(bid: Any, y: Any = None, button: Any = None) -> dict[str, Any]:
    if isinstance(y, str):
        # BrowserGym's signature: click(bid, button).
        if button is not None:
            raise TypeError("the button is given twice")
        y, button = None, y
    return {**target(bid, y), "button": one_of("left" if button is None else button, BUTTONS)}


def _dblclick(bid: Any, y: Any = None, button: Any = None) -> dict[str, Any]:
    return {**_click(bid, y, button), "count": 2}


def _fill(bid: Any, value: Any) -> dict[str, Any]:
    return {"id": number(bid), "text": lines(value)}


def _select_option(bid: Any, options: Any) -> dict[str, Any]:
    chosen = options if isinstance(options, list | tuple) else [options]
    if not chosen:
        raise Invalid('select_option needs one option at least, for example select_option(3, "option")')
    return {"id": number(bid), "options": [string(option) for option in chosen]}


def _press(bid: Any, key_comb: Any = None) -> dict[str, Any]:
    return {"key": string(bid)} if key_comb is None else {"id": number(bid), "key": string(key_comb)}


def _scroll(direction: Any) -> dict[str, Any]:
    return {"direction": one_of(direction, DIRECTIONS)}


def _drag_and_drop(from_bid: Any, to_bid: Any, to_x: Any = None, to_y: Any = None) -> dict[str, Any]:
    if to_x is None:
        return {"id": number(from_bid), "to": number(to_bid)}
    start = {"x": coordinate(from_bid), "y": coordinate(to_bid)}
    return {**start, "to_x": coordinate(to_x), "to_y": coordinate(to_y)}


VERBS: Mapping[str, Verb] = {
    "click": (_click, 'click(12), click(12, "right") or click(x, y)'),
    "dblclick": (_dblclick, "dblclick(12) or dblclick(x, y)"),
    "fill": (_fill, 'fill(3, "text")'),
    "select_option": (_select_option, 'select_option(3, "option") or select_option(3, ["one", "two"])'),
    "press": (_press, 'press("Enter") or press(3, "Control+a")'),
    "keyboard_type": (lambda text: {"text": lines(text)}, 'keyboard_type("text"), into the focused element'),
    "hover": (target, "hover(12) or hover(x, y)"),
    "drag_and_drop": (_drag_and_drop, "drag_and_drop(3, 7) or drag_and_drop(x, y, x, y)"),
    "scroll": (_scroll, 'scroll("down"), or up, left, right'),
    "goto": (lambda url: {"url": string(url)}, 'goto("http://…")'),
    "go_back": (lambda: {}, "go_back()"),
    "go_forward": (lambda: {}, "go_forward()"),
    "new_tab": (lambda: {}, "new_tab()"),
    "tab_focus": (lambda index: {"tab": number(index)}, "tab_focus(0)"),
    "tab_close": (lambda index=None: {} if index is None else {"tab": number(index)}, "tab_close() or tab_close(1)"),
    "noop": (lambda wait_ms=500: {"ms": number(wait_ms)}, "noop(500), milliseconds to wait, at most 3000"),
    ANSWER: (lambda text="": {"text": string(text)}, 'send_msg_to_user("answer"), which ends the episode'),
}
OTHER_NAMES: Mapping[str, str] = {
    "answer": ANSWER,
    "back": "go_back",
    "close_tab": "tab_close",
    "drag": "drag_and_drop",
    "forward": "go_forward",
    "page_close": "tab_close",
    "page_focus": "tab_focus",
    "select": "select_option",
    "stop": ANSWER,
    "switch_tab": "tab_focus",
    "type": "keyboard_type",
    "wait": "noop",
}
"""Names that agents write from habit, with the verb that the error message suggests."""
NOT_A_CALL = 'invalid action: the last line must be exactly one call, for example click(12) or fill(3, "text")'
DIALECT = Dialect(VERBS, NOT_A_CALL, OTHER_NAMES)
