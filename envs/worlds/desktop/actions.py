"""Parse an action of the agent: the last line of its text, written as one call.

``click(12)``, ``type("text")``, ``press("ctrl+s")``. A number is the number of an element in the observation; two
numbers in place of one element are pixels of the screen, for policies that see screenshots. OSWorld's ``pyautogui``
calls, its words ``WAIT``, ``DONE`` and ``FAIL`` (``pyautogui_adapter``), and the calls of UI-TARS (``ui_tars_adapter``)
are accepted too.

To add a verb: a row in ``VERBS`` here, and its function in ``driver/act.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..computer.calls import (
    Action,
    Dialect,
    Invalid,
    InvalidAction,
    Verb,
    coordinate,
    number,
    one_of,
    string,
    target,
    typed,
)
from . import pyautogui_adapter, ui_tars_adapter

DIRECTIONS = ("up", "down", "left", "right")
BUTTONS = ("left", "middle", "right")
DONE, FAIL = "done", "fail"
"""The verbs that end an episode: the task is solved, or cannot be solved."""


def parse(text: str) -> Sequence[Action] | InvalidAction:
    """Return the actions on the last line of ``text``: one, or several for a line of ``pyautogui`` calls."""
    try:
        adapted = pyautogui_adapter.adapt(text)
        if adapted is None:
            adapted = ui_tars_adapter.adapt(text)
    except Invalid as invalid:
        return InvalidAction(str(invalid))
    if adapted is not None:
        return adapted
    action = DIALECT.parse(text)
    return action if isinstance(action, InvalidAction) else [action]


def _click(element: Any, y: Any = None, button: Any = "left") -> dict[str, Any]:
    if isinstance(y, str) and y in BUTTONS:
        # BrowserGym's signature: click(bid, button).
        y, button = None, y
    return {**target(element, y), "button": one_of(button, BUTTONS)}


def _drag(start: Any, end: Any, to_x: Any = None, to_y: Any = None) -> dict[str, Any]:
    if to_x is None:
        return {"id": number(start), "to_id": number(end)}
    origin = {"x": coordinate(start), "y": coordinate(end)}
    return {**origin, "to_x": coordinate(to_x), "to_y": coordinate(to_y)}


def _scroll(*values: Any) -> dict[str, Any]:
    """Read ``scroll("down")``, ``scroll(12, "down")`` or ``scroll(x, y, "down")``, each with a count at the end."""
    texts = [index for index, value in enumerate(values) if isinstance(value, str) and value in DIRECTIONS]
    if len(texts) != 1 or texts[0] > 2 or len(values) > texts[0] + 2:
        raise TypeError("not the arguments of scroll")
    place, count = values[: texts[0]], values[texts[0] + 1 :]
    return {
        "direction": values[texts[0]],
        **(target(*place) if place else {}),
        **({"clicks": number(count[0])} if count else {}),
    }


VERBS: Mapping[str, Verb] = {
    "click": (_click, 'click(12), click(12, button="middle") or click(x, y); a click on a window raises it'),
    "double_click": (
        lambda element, y=None: {**target(element, y), "count": 2},
        "double_click(12) or double_click(x, y)",
    ),
    "right_click": (
        lambda element, y=None: {**target(element, y), "button": "right"},
        "right_click(12) or right_click(x, y)",
    ),
    "drag": (_drag, "drag(3, 7) or drag(x, y, x, y)"),
    "move": (target, "move(12) or move(x, y)"),
    "type": (lambda text: {"text": typed(text)}, 'type("text"), into the focused element'),
    "press": (lambda keys: {"key": string(keys)}, 'press("ctrl+s"), press("Return")'),
    "scroll": (_scroll, 'scroll("down"), scroll(12, "down") or scroll(x, y, "down", 5); also up, left, right'),
    "wait": (lambda wait_ms=500: {"ms": number(wait_ms)}, "wait(500), milliseconds, at most 3000"),
    DONE: (lambda answer="": {"text": string(answer)}, 'done() or done("answer"), which ends the episode'),
    FAIL: (lambda: {}, "fail(), which ends the episode of a task that cannot be done"),
}
OTHER_NAMES: Mapping[str, str] = {
    "answer": DONE,
    "doubleclick": "double_click",
    "drag_and_drop": "drag",
    "fill": "type",
    "finish": DONE,
    "hotkey": "press",
    "hover": "move",
    "infeasible": FAIL,
    "key": "press",
    "keyboard_type": "type",
    "noop": "wait",
    "rightclick": "right_click",
    "send_msg_to_user": DONE,
    "sleep": "wait",
    "stop": DONE,
    "terminate": DONE,
    "write": "type",
}
NOT_A_CALL = 'invalid action: the last line must be exactly one call, for example click(12) or type("text")'
DIALECT = Dialect(VERBS, NOT_A_CALL, OTHER_NAMES)
