"""The elements of a screen: the nodes that a driver reports, and the roles that decide how an agent acts on them.

A node is a mapping with these keys:

* ``role``, ``name``: the ARIA role and the accessible name; both may be empty.
* ``id``: its number, for actions; absent where nothing can refer to the node.
* ``value``: the text or option that it holds.
* ``flags``: states such as ``focused``, ``disabled``, ``checked``, ``not expanded``.
* ``clickable``: whether it listens for clicks although its role does not imply it.
* ``depth``: its depth in the tree of reported nodes, from 0.
* ``rect``: x, y, width and height in CSS pixels of the window.
* ``in_viewport``: whether any of it lies in the window; absent where it has no size.
"""

from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]

CLICKABLE_ROLES = ("button", "link", "radio", "checkbox", "clickable", "tab", "option", "menuitem")
TEXT_ROLES = ("textbox", "searchbox", "spinbutton")
"""Roles that ``fill`` applies to."""
MARKED_ROLES = (*CLICKABLE_ROLES, *TEXT_ROLES, "combobox", "slider", "switch")
"""Roles whose number is drawn on a screenshot."""
LOCKED_FLAGS = frozenset(("disabled", "readonly"))


def in_viewport(node: Node) -> bool:
    """Return whether the node has a number and lies in the window."""
    return "id" in node and bool(node.get("in_viewport"))
