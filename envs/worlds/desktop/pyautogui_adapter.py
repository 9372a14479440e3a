"""Read OSWorld's dialect (Xie et al. 2024): a line of ``pyautogui`` calls, or ``WAIT``, ``DONE``, ``FAIL``.

``pyautogui.click(100, 200); pyautogui.typewrite("text")`` becomes actions of this package. The line is parsed as Python
and never executed; a call or an argument that is not a literal is refused.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..computer.calls import Action, Invalid, coordinate, last_line, literal, one_of, string, typed

WORDS: Mapping[str, Action] = {
    "WAIT": Action("wait", {"ms": 500}),
    "DONE": Action("done", {"text": ""}),
    "FAIL": Action("fail", {}),
}
MAX_ACTIONS = 20
"""Calls on one line."""
MODULES = ("pyautogui", "time")
SECOND_MS = 1000
BUTTONS = ("left", "middle", "right")


def adapt(text: str) -> Sequence[Action] | None:
    """Return the actions of a line in OSWorld's dialect; None if the line is in another one.

    Raises:
        Invalid: the line uses ``pyautogui`` in a way that has no equivalent; the text names it.
    """
    line = last_line(text)
    if line in WORDS:
        return [WORDS[line]]
    if not line.startswith(tuple(f"{module}." for module in MODULES)):
        return None
    try:
        statements = ast.parse(literal(line)).body
        calls = [_call(statement) for statement in statements]
        if len(calls) > MAX_ACTIONS:
            raise Invalid(f"invalid action: more than {MAX_ACTIONS} calls on one line")
        return [action for name, values, named in calls for action in _actions(name, values, named)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise Invalid(f"invalid action: not a line of `pyautogui` calls with literal arguments: {line[:80]}") from None


def _call(statement: ast.stmt) -> tuple[str, list[Any], dict[str, Any]]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    module = function.value if isinstance(function, ast.Attribute) else None
    if not isinstance(call, ast.Call) or not isinstance(function, ast.Attribute) or not isinstance(module, ast.Name):
        raise ValueError("not a call")
    values = [ast.literal_eval(argument) for argument in call.args]
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
    return f"{module.id}.{function.attr}", values, named


def _actions(name: str, values: Sequence[Any], named: Mapping[str, Any]) -> list[Action]:
    if name not in CALLS:
        raise Invalid(f"unknown call `{name[:60]}`; known: {', '.join(CALLS)}")
    return CALLS[name](*values, **named)


def _place(x: Any, y: Any) -> dict[str, Any]:
    if isinstance(x, list | tuple) and y is None and len(x) == 2:
        x, y = x
    return {"x": coordinate(x), "y": coordinate(y)}


def _click(x: Any = None, y: Any = None, clicks: Any = 1, interval: Any = 0, button: Any = "left") -> list[Action]:
    if not isinstance(clicks, int) or not 1 <= clicks <= 3:
        raise Invalid("`clicks` must be 1, 2 or 3")
    pressed = one_of(button, BUTTONS)
    if x is None:
        return [Action("hold", {"button": pressed, "down": down}) for _ in range(clicks) for down in (True, False)]
    return [Action("click", {**_place(x, y), "button": pressed, "count": clicks})]


def _drag_to(x: Any, y: Any = None, duration: Any = 0, button: Any = "left") -> list[Action]:
    pressed = one_of(button, BUTTONS)
    return [
        Action("hold", {"button": pressed, "down": True}),
        Action("move", _place(x, y)),
        Action("hold", {"button": pressed, "down": False}),
    ]


def _hold(down: bool) -> Callable[..., list[Action]]:
    def make(x: Any = None, y: Any = None, button: Any = "left") -> list[Action]:
        place = {} if x is None else _place(x, y)
        return [Action("hold", {**place, "button": one_of(button, BUTTONS), "down": down})]

    return make


def _press(keys: Any, presses: Any = 1, interval: Any = 0) -> list[Action]:
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(presses, int) or not 1 <= presses <= MAX_ACTIONS:
        raise Invalid(f"`presses` must be 1 to {MAX_ACTIONS}")
    return [Action("press", {"key": string(key)}) for _ in range(presses) for key in wanted]


def _hotkey(*keys: Any, interval: Any = 0) -> list[Action]:
    wanted = keys[0] if len(keys) == 1 and isinstance(keys[0], list | tuple) else keys
    return [Action("press", {"key": "+".join(string(key) for key in wanted)})]


def _scroll(clicks: Any, x: Any = None, y: Any = None) -> list[Action]:
    amount = int(coordinate(clicks))
    place = {} if x is None else _place(x, y)
    return [Action("scroll", {**place, "direction": "up" if amount > 0 else "down", "clicks": abs(amount)})]


def _hscroll(clicks: Any, x: Any = None, y: Any = None) -> list[Action]:
    (action,) = _scroll(clicks, x, y)
    direction = {"up": "right", "down": "left"}[action.arguments["direction"]]
    return [Action("scroll", {**action.arguments, "direction": direction})]


def _type(message: Any, interval: Any = 0) -> list[Action]:
    return [Action("type", {"text": typed(message)})]


CALLS: Mapping[str, Callable[..., list[Action]]] = {
    "pyautogui.click": _click,
    "pyautogui.leftClick": _click,
    "pyautogui.rightClick": lambda x=None, y=None: _click(x, y, button="right"),
    "pyautogui.middleClick": lambda x=None, y=None: _click(x, y, button="middle"),
    "pyautogui.doubleClick": lambda x=None, y=None: _click(x, y, clicks=2),
    "pyautogui.tripleClick": lambda x=None, y=None: _click(x, y, clicks=3),
    "pyautogui.moveTo": lambda x, y=None, duration=0: [Action("move", _place(x, y))],
    "pyautogui.dragTo": _drag_to,
    "pyautogui.mouseDown": _hold(True),
    "pyautogui.mouseUp": _hold(False),
    "pyautogui.press": _press,
    "pyautogui.hotkey": _hotkey,
    "pyautogui.keyDown": lambda key: [Action("hold", {"key": string(key), "down": True})],
    "pyautogui.keyUp": lambda key: [Action("hold", {"key": string(key), "down": False})],
    "pyautogui.typewrite": _type,
    "pyautogui.write": _type,
    "pyautogui.scroll": _scroll,
    "pyautogui.vscroll": _scroll,
    "pyautogui.hscroll": _hscroll,
    "pyautogui.sleep": lambda seconds: [Action("wait", {"ms": int(coordinate(seconds) * SECOND_MS)})],
    "time.sleep": lambda seconds: [Action("wait", {"ms": int(coordinate(seconds) * SECOND_MS)})],
}
