"""Read the dialect of UI-TARS (Qin et al. 2025, arXiv:2501.12326): ``Action: click(start_box='(100,200)')``.

A place is ``(x,y)``, ``[x1,y1,x2,y2]`` or ``<point>x y</point>``, with or without the model's box tokens, in pixels of
the picture that the policy saw. The line is parsed as Python and never executed.
"""

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..computer.calls import Action, Invalid, coordinate, last_line, literal, string, typed

PREFIX = "Action:"
PLACES = frozenset({"start_box", "end_box", "point", "start_point", "end_point"})
OWN_ARGUMENTS = PLACES | {"content", "key", "direction"}
"""Names of arguments that no call of this package has."""
OWN_NAMES = frozenset({"left_double", "right_single", "finished", "call_user"})
DIRECTIONS = ("up", "down", "left", "right")
NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)")
WAIT_MS = 3000


def adapt(text: str) -> Sequence[Action] | None:
    """Return the actions of a line in the dialect of UI-TARS; None if the line is in another one.

    Raises:
        Invalid: the line has no equivalent; the text says why.
    """
    line = last_line(text)
    is_marked = line.startswith(PREFIX)
    try:
        call = ast.parse(literal(line.removeprefix(PREFIX).strip()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in CALLS:
        return None
    name, named = call.func.id, {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if not (is_marked or name in OWN_NAMES or OWN_ARGUMENTS & named.keys()):
        return None
    try:
        if call.args:
            raise TypeError("UI-TARS names its arguments")
        return [CALLS[name](**{key: ast.literal_eval(value) for key, value in named.items()})]
    except (TypeError, ValueError):
        raise Invalid(f"invalid arguments of UI-TARS' `{name}`: {line[:80]}") from None


def _place(value: Any) -> tuple[float, float]:
    """Return the point, or the middle of the box."""
    numbers = [coordinate(float(one)) for one in NUMBER.findall(value)]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    if len(numbers) == 4:
        return (numbers[0] + numbers[2]) / 2, (numbers[1] + numbers[3]) / 2
    raise ValueError(f"{value!r} is neither a point nor a box")


def _click(button: str = "left", count: int = 1) -> Callable[..., Action]:
    def make(start_box: Any = None, point: Any = None) -> Action:
        x, y = _place(point if start_box is None else start_box)
        return Action("click", {"x": x, "y": y, "button": button, "count": count})

    return make


def _drag(start_box: Any = None, end_box: Any = None, start_point: Any = None, end_point: Any = None) -> Action:
    x, y = _place(start_point if start_box is None else start_box)
    to_x, to_y = _place(end_point if end_box is None else end_box)
    return Action("drag", {"x": x, "y": y, "to_x": to_x, "to_y": to_y})


def _scroll(direction: Any, start_box: Any = None, point: Any = None) -> Action:
    if direction not in DIRECTIONS:
        raise ValueError(f"{direction!r} is no direction")
    place = point if start_box is None else start_box
    x_and_y = {} if place is None else dict(zip(("x", "y"), _place(place), strict=True))
    return Action("scroll", {"direction": direction, **x_and_y})


CALLS: Mapping[str, Callable[..., Action]] = {
    "click": _click(),
    "left_double": _click(count=2),
    "right_single": _click(button="right"),
    "drag": _drag,
    "hotkey": lambda key: Action("press", {"key": "+".join(string(key).split())}),
    "type": lambda content: Action("type", {"text": typed(content)}),
    "scroll": _scroll,
    "wait": lambda: Action("wait", {"ms": WAIT_MS}),
    "finished": lambda content="": Action("done", {"text": string(content)}),
    "call_user": lambda: Action("fail", {}),
}
