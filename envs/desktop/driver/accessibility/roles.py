"""The roles and states of AT-SPI, and the ARIA roles and flags that nodes carry (``envs/computer/elements.py``)."""

from __future__ import annotations

DROPPED = frozenset({48, 50, 59, 64})
"""Scroll bars, separators, tear-off handles and tooltips: left out with everything below them."""
TRANSPARENT = frozenset({0, 18, 20, 24, 30, 36, 39, 46, 49, 53, 67, 68, 71, 72, 75, 85, 86, 98})
"""Containers: without a name, their children are reported in their place."""
ROLES = {
    2: "alert",
    5: "grid",
    7: "checkbox",
    8: "menuitemcheckbox",
    10: "columnheader",
    11: "combobox",
    16: "dialog",
    19: "dialog",
    22: "dialog",
    23: "window",
    26: "listitem",
    27: "image",
    29: "text",
    31: "list",
    32: "listitem",
    33: "menuitem",
    34: "menubar",
    35: "menuitem",
    37: "tab",
    38: "tablist",
    40: "textbox",
    41: "menu",
    42: "progressbar",
    43: "button",
    44: "radio",
    45: "menuitemradio",
    47: "rowheader",
    51: "slider",
    52: "spinbutton",
    54: "status",
    55: "table",
    56: "cell",
    57: "columnheader",
    58: "rowheader",
    60: "terminal",
    61: "textbox",
    62: "button",
    63: "toolbar",
    65: "tree",
    66: "table",
    69: "window",
    73: "text",
    79: "textbox",
    83: "heading",
    88: "link",
    90: "row",
    91: "treeitem",
    94: "textbox",
    95: "textbox",
    101: "alert",
    102: "alert",
    116: "text",
}
"""By number of the AT-SPI role; a role that is not here is ``group``."""
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
