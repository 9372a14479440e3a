"""The actions of which the solutions of templates consist, as the agent writes them."""

import json

Acts = tuple[str, ...]

FAIL = "fail()"
SAVE = 'press("ctrl+s")'
ENTER = 'press("Return")'
CLOSE_WINDOW = 'press("alt+F4")'
DIALOG_DELAY = "wait(500)"
"""File dialogs act on a timer after their confirmation."""


def write(text: str) -> str:
    """Type a text into the focus."""
    return f"type({json.dumps(text, ensure_ascii=False)})"


def press(keys: str, times: int = 1) -> Acts:
    """Press a key or a combination some times."""
    return (f'press("{keys}")',) * times


def click(role: str, name: str, nth: int = 1) -> str:
    """Click the element with this role and name, the ``nth`` of them, from 1."""
    return f"click({_element(role, name, nth)})"


def double_click(role: str, name: str) -> str:
    """Double-click the element with this role and name."""
    return f"double_click({_element(role, name, 1)})"


def done(answer: object = None) -> str:
    """End the episode, with an answer if the task requests one."""
    return "done()" if answer is None else f"done({json.dumps(str(answer), ensure_ascii=False)})"


def menu(name: str, *items: str) -> Acts:
    """Open a menu and click its items one after the other."""
    return tuple(click("menuitem", item) for item in (name, *items))


def pick(file: str) -> str:
    """Select a file or a folder of the file manager."""
    return click("listitem", file)


def save_as(name: str) -> Acts:
    """Give a name in a file dialog whose name field has the focus, and confirm."""
    return (*press("ctrl+a"), write(name), ENTER, DIALOG_DELAY)


def _element(role: str, name: str, nth: int) -> str:
    return f"{{{role} '{name}'{f' {nth}' if nth > 1 else ''}}}"
