"""Execute the actions of the agent; an action that cannot be executed is refused in one line that the agent reads."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

from .accessibility.roles import WINDOW_ROLES
from .accessibility.tree import middle
from .episode import Episode
from .errors import Refused
from .keyboard import Key
from .screen import BUTTONS, WHEEL
from .session import settle

MAX_WAIT_MS = 3000
DOUBLE_CLICK_S = 0.11
"""Two clicks of different actions at one pixel are this far apart; the image's double click is shorter."""
ELSEWHERE_PX = 3
"""The next click on the same element hits another pixel, so that it needs no such wait."""
MIN_WIDTH_PX = 4 * ELSEWHERE_PX
DRAG_STEPS = 4
MAX_SCROLL_CLICKS = 50
MAX_TYPED_CHARS = 4000
ACTIVATE_TIMEOUT_S = 0.5
KEY_REPEAT_S = {"galculator": 0.12}
"""Applications that drop a key which repeats faster than by hand."""


def act(episode: Episode, action: dict[str, Any]) -> None:
    """Execute one action and wait for its effects. Raises Refused: the action cannot be executed."""
    try:
        VERBS[action["verb"]](episode, action)
    finally:
        settle(episode.session)


def target(episode: Episode, action: dict[str, Any], prefix: str = "") -> tuple[int, int]:
    """Return the pixel that an action addresses, by coordinates or by the number of an element.

    Raises:
        Refused: the element is not on the screen or not in view, or the pixel is outside the screen.
    """
    screen = episode.screen
    if (number := action.get(prefix + "id")) is None:
        return screen.point(action[prefix + "x"], action[prefix + "y"])
    node = episode.numbers.nodes.get(number)
    if node is None:
        raise Refused(f"element {number} is not on the screen")
    if not node.get("in_viewport"):
        raise Refused(f"element {number} is covered or out of view: click its window, or scroll, first")
    return screen.point(*middle(node["rect"], screen.width, screen.height))


def click(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``click``, ``double_click`` or ``right_click``; a click on a window raises it."""
    screen = episode.screen
    number = action.get("id", -1)
    node = episode.numbers.nodes.get(number)
    if node is not None and node["role"] in WINDOW_ROLES and number in episode.numbers.windows:
        _activate(episode, episode.numbers.windows[number])
        return
    point = target(episode, action)
    button = action.get("button", "left")
    if (*point, button) == episode.last_click and node is not None and node["rect"][2] >= MIN_WIDTH_PX:
        point = (point[0] - ELSEWHERE_PX, point[1])
    click_at = (*point, button)
    wait_s = episode.last_click_s + DOUBLE_CLICK_S - monotonic()
    if wait_s > 0 and click_at == episode.last_click:
        sleep(wait_s)
    screen.move(*point)
    screen.click(BUTTONS[button], action.get("count", 1))
    episode.last_click, episode.last_click_s = click_at, monotonic()


def _activate(episode: Episode, number: int) -> None:
    window = next((window for window in episode.screen.windows() if window.id == number), None)
    if window is None:
        raise Refused("that window was closed")
    episode.screen.activate(window)
    settle(episode.session, ACTIVATE_TIMEOUT_S)


def move(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``move``."""
    episode.screen.move(*target(episode, action))


def place(episode: Episode, action: dict[str, Any]) -> None:
    """Move a window, given by the number of its node, to where its frame has the left upper corner ``x``, ``y``.

    It is for the start of an episode: no action of an agent leads to it.
    """
    number = episode.numbers.windows.get(action["id"])
    if number is None:
        raise Refused(f"element {action['id']} is not a window")
    episode.screen.place(number, action["x"], action["y"])


def drag(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``drag``: press at the start, move to the end in steps, release."""
    screen = episode.screen
    start, end = target(episode, action), target(episode, action, "to_")
    screen.move(*start)
    screen.button(BUTTONS["left"], True)
    try:
        for step in range(1, DRAG_STEPS + 1):
            settle(episode.session)
            screen.move(*(a + (b - a) * step // DRAG_STEPS for a, b in zip(start, end, strict=True)))
        settle(episode.session)
    finally:
        screen.button(BUTTONS["left"], False)


def type_text(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``type``: key by key into the focused element."""
    text = action["text"]
    if len(text) > MAX_TYPED_CHARS:
        raise Refused(f"type: the text has {len(text)} characters; type at most {MAX_TYPED_CHARS} at once")
    keyboard = episode.screen.keyboard
    bound = dict(keyboard.bound)
    keys = keyboard.for_text(text)
    if keyboard.bound != bound:
        # The applications read the new key map before the keys arrive.
        settle(episode.session)
    focused = next((window.application for window in episode.screen.windows() if window.focused), "")
    pause_s = KEY_REPEAT_S.get(focused, 0.0)
    parts = runs(keys) if pause_s else [keys]
    for index, part in enumerate(parts):
        if index:
            sleep(pause_s)
        episode.screen.type(part)


def runs(keys: list[Key]) -> list[list[Key]]:
    """Return the keys in parts, none of which has the same key twice in a row."""
    parts: list[list[Key]] = []
    for key in keys:
        if parts and parts[-1][-1] != key:
            parts[-1].append(key)
        else:
            parts.append([key])
    return parts


def press(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``press``; modifiers are released once the desktop has taken the key, as by a hand.

    The window manager sees the end of ``alt+Tab`` only if it has grabbed the keyboard by then.
    """
    screen = episode.screen
    *held, last = screen.keyboard.for_combination(action["key"])
    for code, _ in held:
        screen.key(code, True)
    try:
        screen.type([last])
        if held:
            settle(episode.session)
    finally:
        for code, _ in reversed(held):
            screen.key(code, False)


def scroll(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``scroll`` over an element, a pixel, or the middle of the focused window."""
    screen = episode.screen
    if "id" in action or "x" in action:
        point = target(episode, action)
    else:
        focused = [window.rect for window in screen.windows() if window.focused]
        point = middle(focused[0] if focused else (0, 0, screen.width, screen.height), screen.width, screen.height)
    screen.move(*point)
    screen.click(WHEEL[action["direction"]], min(action.get("clicks", 3), MAX_SCROLL_CLICKS))


def wait(episode: Episode, action: dict[str, Any]) -> None:
    """Execute ``wait``: that many milliseconds, within bounds."""
    sleep(min(max(action.get("ms", 500), 0), MAX_WAIT_MS) / 1000)


def hold(episode: Episode, action: dict[str, Any]) -> None:
    """Press or release a key or a button and leave it so, for dialects of an action with several parts."""
    screen, down = episode.screen, bool(action["down"])
    if "key" in action:
        for code, _ in screen.keyboard.for_combination(action["key"]):
            screen.key(code, down)
        return
    if "x" in action:
        screen.move(*target(episode, action))
    screen.button(BUTTONS[action.get("button", "left")], down)


VERBS = {action.__name__: action for action in (click, move, place, drag, press, scroll, wait, hold)} | {
    "double_click": click,
    "right_click": click,
    "type": type_text,
}
