"""The roles and states of AT-SPI, and the ARIA roles and flags that nodes carry (``worlds/computer/elements.py``)."""

from __future__ import annotations

DROPPED = frozenset({48, 50, 59, 64})
"""Scroll bars, separators, tear-off handles and tooltips: left out with everything below them."""
TRANSPARENT = frozenset({0, 18, 20, 24, 30, 36, 39, 46, 49, 53, 67, 68, 71, 72, 75, 85, 86, 98})
"""Containers: without a name, their children are reported in their place."""
BY_ROLE = {
    "alert": (2, 101, 102),
    "grid": (5,),
    "checkbox": (7,),
    "menuitemcheckbox": (8,),
    "columnheader": (10, 57),
    "combobox": (11,),
    "dialog": (16, 19, 22),
    "window": (23, 69),
    "listitem": (26, 32),
    "image": (27,),
    "text": (29, 73, 116),
    "list": (31,),
    "menuitem": (33, 35),
    "menubar": (34,),
    "tab": (37,),
    "tablist": (38,),
    "textbox": (40, 61, 79, 94, 95),
    "menu": (41,),
    "progressbar": (42,),
    "button": (43, 62),
    "radio": (44,),
    "menuitemradio": (45,),
    "rowheader": (47, 58),
    "slider": (51,),
    "spinbutton": (52,),
    "status": (54,),
    "table": (55, 66),
    "cell": (56,),
    "terminal": (60,),
    "toolbar": (63,),
    "tree": (65,),
    "heading": (83,),
    "link": (88,),
    "row": (90,),
    "treeitem": (91,),
}
"""AT-SPI's numbers by ARIA role."""
ROLES = {number: role for role, numbers in BY_ROLE.items() for number in numbers}
"""By AT-SPI's number; a role that is not here is ``group``."""
OTHER_ROLE = "group"
MENU_ITEM, TOGGLE_BUTTON = 35, 62
WINDOW_ROLES = frozenset({"window", "dialog", "alert"})
TEXT_ROLES = frozenset({"textbox", "terminal", "text", "spinbutton", "combobox", "cell", "listitem"})
"""Roles whose text is read."""
VALUE_ROLES = frozenset({"slider", "progressbar"})
CHECK_ROLES = frozenset({"checkbox", "radio", "menuitemcheckbox", "menuitemradio"})

ACTIVE, CHECKED, EDITABLE, ENABLED, EXPANDABLE, EXPANDED, FOCUSED = 1, 4, 7, 8, 9, 10, 12
MODAL, SELECTED, SENSITIVE, SHOWING, VISIBLE, MANAGES_DESCENDANTS = 16, 23, 24, 25, 30, 31
CHECKABLE = 41


def has(states: int, state: int) -> bool:
    """Return whether a state is set."""
    return bool(states >> state & 1)


def role_of(number: int, states: int) -> str:
    """Return the ARIA role of an object by AT-SPI's number of its role."""
    checkable = has(states, CHECKABLE) or has(states, CHECKED)
    return "menuitemcheckbox" if number == MENU_ITEM and checkable else ROLES.get(number, OTHER_ROLE)


def flags_of(number: int, role: str, states: int) -> list[str]:
    """Return the flags of a node: AT-SPI's number of its role, its ARIA role, its states as bits."""
    flags = []
    if has(states, FOCUSED):
        flags.append("focused")
    if not has(states, SENSITIVE) and not has(states, ENABLED) and role not in WINDOW_ROLES and role != "text":
        flags.append("disabled")
    if role in CHECK_ROLES:
        flags.append("checked" if has(states, CHECKED) else "not checked")
    if number == TOGGLE_BUTTON and has(states, CHECKED):
        flags.append("pressed")
    if has(states, SELECTED) and role not in ("menuitem", *CHECK_ROLES):
        flags.append("selected")
    if has(states, EXPANDABLE):
        flags.append("expanded" if has(states, EXPANDED) else "not expanded")
    if role == "textbox" and not has(states, EDITABLE):
        flags.append("readonly")
    if has(states, MODAL):
        flags.append("modal")
    return flags
