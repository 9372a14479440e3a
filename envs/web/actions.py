"""Parse an action of the agent: the last line of its text, written as one call with BrowserGym's verbs.

``click(12)``, ``fill(3, "text")``, ``goto("http://…")``. A number is the number of an element in the observation. Two
numbers in place of one element are CSS pixel coordinates of the window, for policies that see screenshots. Parsing
never raises: text that is not an action becomes an ``InvalidAction`` whose message the agent reads.

To add a verb: a row in ``VERBS`` and in ``USAGE`` here, and its function in ``driver/act.py``.
"""

import ast
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MAX_ACTION_CHARS = 8000
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = frozenset("\\'\"abfnrtvxuUN")
DIRECTIONS = ("up", "down", "left", "right")
BUTTONS = ("left", "middle", "right")
ANSWER = "send_msg_to_user"
"""The verb that ends an episode; its text is the agent's answer."""


@dataclass(frozen=True, slots=True)
class Action:
    """A parsed action; ``arguments`` are JSON values, as ``driver/act.py`` takes them."""

    verb: str
    arguments: Mapping[str, Any]

    def as_request(self) -> dict[str, Any]:
        """Return the JSON object that the driver executes."""
        return {"verb": self.verb, **self.arguments}


@dataclass(frozen=True, slots=True)
class InvalidAction:
    """Text that is not an action, with the message that the agent reads."""

    message: str


class _Invalid(Exception):
    """Carries the message of an ``InvalidAction``."""


def parse(text: str, origins: tuple[str, ...] = ()) -> Action | InvalidAction:
    """Return the action on the last line of ``text``.

    ``goto`` accepts http(s) addresses of ``origins`` only, such as ``http://127.0.0.1:8000``.
    """
    try:
        return _parse(text, origins)
    except _Invalid as invalid:
        return InvalidAction(str(invalid))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return InvalidAction(NOT_A_CALL)


def _parse(text: str, origins: tuple[str, ...]) -> Action:
    lines = (line.strip().strip("`") for line in reversed(text.strip().splitlines()))
    last = next((line for line in lines if line), "")
    if len(last) > MAX_ACTION_CHARS:
        raise _Invalid(f"invalid action: the last line is longer than {MAX_ACTION_CHARS} characters")
    call = ast.parse(ESCAPE.sub(_literal_backslash, last), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _Invalid(NOT_A_CALL)
    verb = call.func.id
    if verb not in VERBS:
        raise _Invalid(_unknown(verb))
    try:
        values = [ast.literal_eval(argument) for argument in call.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
        arguments = VERBS[verb](*values, **named)
    except (TypeError, ValueError):
        raise _Invalid(f"invalid arguments; usage: {USAGE[verb]}") from None
    if verb == "goto" and not _allowed(arguments["url"], origins):
        raise _Invalid(f"goto accepts full addresses of {' or '.join(origins) or 'this site'} only")
    return Action(verb, arguments)


def _unknown(verb: str) -> str:
    close = difflib.get_close_matches(verb, VERBS, n=1)
    suggestion = OTHER_NAMES.get(verb) or (close[0] if close else "")
    hint = f"; did you mean {suggestion}?" if suggestion else "."
    return f"unknown action {verb[:40]!r}{hint} Actions: {', '.join(VERBS)}"


def _literal_backslash(escape: re.Match[str]) -> str:
    """Double a backslash that does not start an escape; Python would warn on stderr."""
    return escape.group() if escape.group(1) in ESCAPES else "\\" + escape.group()


def _allowed(url: str, origins: tuple[str, ...]) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" in origins


def _number(value: Any) -> int:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
        raise _Invalid(f"{value!r:.40} is not a non-negative integer")
    return value


def _coordinate(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not -(10**5) < value < 10**5:
        raise _Invalid(f"{value!r:.40} is not a coordinate")
    return float(value)


def _string(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Invalid(f"{value!r:.40} is not a string")
    return str(value)


def _one_of(value: Any, options: tuple[str, ...]) -> str:
    if value not in options:
        raise _Invalid(f"{value!r:.40} is not one of {', '.join(options)}")
    return str(value)


def _click(bid: Any, y: Any = None, button: Any = "left") -> dict[str, Any]:
    return {**_target(bid, y), "button": _one_of(button, BUTTONS)}


def _dblclick(bid: Any, y: Any = None) -> dict[str, Any]:
    return {**_target(bid, y), "count": 2}


def _target(bid: Any, y: Any = None) -> dict[str, Any]:
    return {"id": _number(bid)} if y is None else {"x": _coordinate(bid), "y": _coordinate(y)}


def _fill(bid: Any, value: Any) -> dict[str, Any]:
    return {"id": _number(bid), "text": _string(value)}


def _select_option(bid: Any, options: Any) -> dict[str, Any]:
    chosen = options if isinstance(options, list | tuple) else [options]
    return {"id": _number(bid), "options": [_string(option) for option in chosen]}


def _press(bid: Any, key_comb: Any = None) -> dict[str, Any]:
    return {"key": _string(bid)} if key_comb is None else {"id": _number(bid), "key": _string(key_comb)}


def _scroll(direction: Any) -> dict[str, Any]:
    return {"direction": _one_of(direction, DIRECTIONS)}


def _drag_and_drop(from_bid: Any, to_bid: Any, to_x: Any = None, to_y: Any = None) -> dict[str, Any]:
    if to_x is None:
        return {"id": _number(from_bid), "to": _number(to_bid)}
    start = {"x": _coordinate(from_bid), "y": _coordinate(to_bid)}
    return {**start, "to_x": _coordinate(to_x), "to_y": _coordinate(to_y)}


VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "click": _click,
    "dblclick": _dblclick,
    "fill": _fill,
    "select_option": _select_option,
    "press": _press,
    "keyboard_type": lambda text: {"text": _string(text)},
    "hover": _target,
    "drag_and_drop": _drag_and_drop,
    "scroll": _scroll,
    "goto": lambda url: {"url": _string(url)},
    "go_back": lambda: {},
    "go_forward": lambda: {},
    "new_tab": lambda: {},
    "tab_focus": lambda index: {"tab": _number(index)},
    "tab_close": lambda index=None: {} if index is None else {"tab": _number(index)},
    "noop": lambda wait_ms=500: {"ms": _number(wait_ms)},
    ANSWER: lambda text="": {"text": _string(text)},
}
USAGE: Mapping[str, str] = {
    "click": 'click(12), click(12, button="right") or click(x, y)',
    "dblclick": "dblclick(12) or dblclick(x, y)",
    "fill": 'fill(3, "text")',
    "select_option": 'select_option(3, "option") or select_option(3, ["one", "two"])',
    "press": 'press("Enter") or press(3, "Control+a")',
    "keyboard_type": 'keyboard_type("text"), into the focused element',
    "hover": "hover(12) or hover(x, y)",
    "drag_and_drop": "drag_and_drop(3, 7) or drag_and_drop(x, y, x, y)",
    "scroll": 'scroll("down"), or up, left, right',
    "goto": 'goto("http://…")',
    "go_back": "go_back()",
    "go_forward": "go_forward()",
    "new_tab": "new_tab()",
    "tab_focus": "tab_focus(0)",
    "tab_close": "tab_close() or tab_close(1)",
    "noop": "noop(500), milliseconds to wait, at most 3000",
    ANSWER: 'send_msg_to_user("answer"), which ends the episode',
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
