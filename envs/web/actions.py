"""What the agent wrote, as an action of the browser; reading it never raises.

An action is a call on the last line, as the field writes them: ``click(12)``, ``fill(3, "text")``,
``goto("http://…")``. Numbers are those of the observation; two numbers where one is an element's are coordinates in
CSS pixels of the window,
for policies that see. What cannot be read is a ``Problem`` whose text the agent can learn from.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MAX_CHARS = 8000
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
ESCAPES = frozenset("\\'\"abfnrtvxuUN")
DIRECTIONS = ("up", "down", "left", "right")
BUTTONS = ("left", "middle", "right")


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do; ``arguments`` are JSON values, as ``driver.act`` takes them."""

    verb: str
    arguments: Mapping[str, Any]

    def json(self) -> dict[str, Any]:
        """For the driver."""
        return {"verb": self.verb, **self.arguments}


@dataclass(frozen=True, slots=True)
class Problem:
    """Why it is no action, for the agent."""

    text: str


class _Unreadable(Exception):
    """Carries the text of a ``Problem``."""


def read(text: str, origins: tuple[str, ...] = ()) -> Action | Problem:
    """The action of a text. ``goto`` takes http(s) addresses of ``origins`` only (``http://127.0.0.1:8000``)."""
    try:
        return _read(text, origins)
    except _Unreadable as problem:
        return Problem(str(problem))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return Problem(NONE)


def _read(text: str, origins: tuple[str, ...]) -> Action:
    lines = (line.strip().strip("`") for line in reversed(text.strip().splitlines()))
    last = next((line for line in lines if line), "")
    if len(last) > MAX_CHARS:
        raise _Unreadable(f"that is longer than the {MAX_CHARS} characters that an action may have")
    call = ast.parse(ESCAPE.sub(_as_it_stands, last), mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise _Unreadable(NONE)
    verb = call.func.id
    if verb not in VERBS:
        raise _Unreadable(f"there is no action {verb[:40]!r}; there are {', '.join(VERBS)}")
    try:
        given = [ast.literal_eval(one) for one in call.args]
        named = {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg}
        found = VERBS[verb](*given, **named)
    except (TypeError, ValueError):
        raise _Unreadable(f"{verb} is written {USAGE[verb]}") from None
    if verb == "goto" and not _allowed(found["url"], origins):
        raise _Unreadable(f"goto takes a whole address, of {' or '.join(origins) or 'this site'} only")
    return Action(verb, found)


def _as_it_stands(escape: re.Match[str]) -> str:
    """A backslash that escapes nothing is one; Python would say so on the error stream."""
    return escape.group() if escape.group(1) in ESCAPES else "\\" + escape.group()


def _allowed(url: str, origins: tuple[str, ...]) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and f"{parts.scheme}://{parts.netloc}" in origins


def _number(value: Any) -> int:
    if isinstance(value, str) and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 10**9:
        raise _Unreadable(f"{value!r:.40} is not the number of an element")
    return value


def _place(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not -(10**5) < value < 10**5:
        raise _Unreadable(f"{value!r:.40} is not a coordinate")
    return float(value)


def _string(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _Unreadable(f"{value!r:.40} is not a text")
    return str(value)


def _one_of(value: Any, options: tuple[str, ...]) -> str:
    if value not in options:
        raise _Unreadable(f"{value!r:.40} is none of {', '.join(options)}")
    return str(value)


def _click(one: Any, other: Any = None, button: Any = "left") -> dict[str, Any]:
    return {**_target(one, other), "button": _one_of(button, BUTTONS)}


def _dblclick(one: Any, other: Any = None) -> dict[str, Any]:
    return {**_target(one, other), "count": 2}


def _target(one: Any, other: Any = None) -> dict[str, Any]:
    return {"id": _number(one)} if other is None else {"x": _place(one), "y": _place(other)}


def _fill(element: Any, text: Any) -> dict[str, Any]:
    return {"id": _number(element), "text": _string(text)}


def _select(element: Any, options: Any) -> dict[str, Any]:
    chosen = options if isinstance(options, list | tuple) else [options]
    return {"id": _number(element), "options": [_string(one) for one in chosen]}


def _press(one: Any, key: Any = None) -> dict[str, Any]:
    return {"key": _string(one)} if key is None else {"id": _number(one), "key": _string(key)}


def _scroll(direction: Any) -> dict[str, Any]:
    return {"direction": _one_of(direction, DIRECTIONS)}


def _drag(one: Any, two: Any, three: Any = None, four: Any = None) -> dict[str, Any]:
    if three is None:
        return {"id": _number(one), "to": _number(two)}
    return {"x": _place(one), "y": _place(two), "to_x": _place(three), "to_y": _place(four)}


VERBS: Mapping[str, Callable[..., dict[str, Any]]] = {
    "click": _click,
    "dblclick": _dblclick,
    "fill": _fill,
    "select": _select,
    "press": _press,
    "type": lambda text: {"text": _string(text)},
    "hover": _target,
    "drag": _drag,
    "scroll": _scroll,
    "goto": lambda url: {"url": _string(url)},
    "back": lambda: {},
    "forward": lambda: {},
    "new_tab": lambda: {},
    "switch_tab": lambda tab: {"tab": _number(tab)},
    "close_tab": lambda tab=None: {} if tab is None else {"tab": _number(tab)},
    "wait": lambda ms=500: {"ms": _number(ms)},
    "answer": lambda text="": {"text": _string(text)},
}
USAGE: Mapping[str, str] = {
    "click": 'click(12), click(12, button="right") or click(x, y)',
    "dblclick": "dblclick(12) or dblclick(x, y)",
    "fill": 'fill(3, "text")',
    "select": 'select(3, "option") or select(3, ["one", "two"])',
    "press": 'press("Enter") or press(3, "Control+a")',
    "type": 'type("text"), to whatever has the focus',
    "hover": "hover(12) or hover(x, y)",
    "drag": "drag(3, 7) or drag(x, y, x, y)",
    "scroll": 'scroll("down"), or up, left, right',
    "goto": 'goto("http://…")',
    "back": "back()",
    "forward": "forward()",
    "new_tab": "new_tab()",
    "switch_tab": "switch_tab(0)",
    "close_tab": "close_tab() or close_tab(1)",
    "wait": "wait(500), in milliseconds, 3000 at most",
    "answer": 'answer("text"), which ends the episode',
}
NONE = 'that is not an action; the last line is to be one call and nothing else, such as click(12) or fill(3, "text")'
