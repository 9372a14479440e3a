"""The elements of a screen: the nodes that a driver reports, and the roles that decide how an agent acts on them.

``render`` returns an observation as numbered text: tabs, notes and the nodes, one per line.

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

import re
from collections.abc import Mapping, Sequence
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


def targets(action: Mapping[str, Any], nodes: Sequence[Node]) -> list[list[float]]:
    """Return the points and boxes of the screen that an action names: ``[x, y]`` or ``[x, y, width, height]``.

    An element without a place in the window has none.

    Args:
        action: as the driver takes it (``calls.Action.as_request``).
        nodes: of the observation that the action answers.
    """
    boxes = {node["id"]: node["rect"] for node in nodes if in_viewport(node) and "rect" in node}
    elements = [boxes[action[key]] for key in ("id", "to", "to_id") if action.get(key) in boxes]
    points = [(action[x], action[y]) for x, y in (("x", "y"), ("to_x", "to_y")) if x in action]
    return [[round(float(value), 1) for value in one] for one in (*elements, *points)]


REFERENCE = re.compile(r"\{([a-z]+)(?: '((?:[^'\\]|\\.)*)')?(?: (\d+))?\}")


def resolve(action: str, nodes: Sequence[Node]) -> str:
    """Return the action with the number of an element in place of each reference.

    ``click({button 'Save'})`` names the first element in view of that role and name, ``{button 'Save' 2}`` the second
    one, ``{textbox}`` the first of the role. Oracles and tests use this notation; the agent never sees it.

    Raises:
        LookupError: no element in view matches; the text lists the elements in view.
    """

    def number(reference: re.Match[str]) -> str:
        role, name, count = reference.groups()
        found = [
            node
            for node in nodes
            if in_viewport(node) and node["role"] == role and (name is None or node["name"] == name.replace("\\'", "'"))
        ]
        wanted = int(count or 1)
        if len(found) < wanted:
            shown = ", ".join(f"{node['role']} {node['name']!r}" for node in nodes if in_viewport(node))
            raise LookupError(f"element {reference.group()} is not on the screen; in view: {shown[:4000]}")
        return str(found[wanted - 1]["id"])

    return REFERENCE.sub(number, action)


MAX_TEXT_CHARS = 12_000
MAX_TITLE_CHARS = 300
"""Limit of one address or title."""
MAX_INDENT = 12


def render(observation: Mapping[str, Any], max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the tabs, the notes and the nodes of an observation as text.

    A node reads ``[12] button 'Save' disabled``, indented by depth. ``(out of view)`` means that the page must be
    scrolled first. A text node without a number is for reading only. A text longer than ``max_chars`` loses its nodes
    outside the window first; the rest is cut at a line end.
    """
    lines = []
    tabs, active = observation.get("tabs", ()), observation.get("active", 0)
    for index, (url, title) in enumerate(tabs):
        if len(tabs) > 1 or index == active:
            marker = "*" if index == active else " "
            quoted_title = f"{quote(_shorten(title))} " if title else ""
            lines.append(f"{marker} tab {index}: {quoted_title}{_shorten(url)}")
    lines += [f"! {note}" for note in observation.get("notes", ())]
    nodes, omitted = observation.get("nodes", ()), observation.get("omitted", 0)
    rendered = [*lines, *map(render_node, nodes)]
    if omitted or sum(map(len, rendered)) + len(rendered) > max_chars:
        visible = [node for node in nodes if node.get("in_viewport", True)]
        rendered, omitted = [*lines, *map(render_node, visible)], omitted + len(nodes) - len(visible)
    return cut_lines(rendered, max_chars, omitted)


def render_node(node: Node) -> str:
    """Return the line of one node."""
    number = f"[{node['id']}] " if "id" in node and (node["role"] != "text" or node.get("clickable")) else ""
    parts = [f"{'  ' * min(node.get('depth', 0), MAX_INDENT)}{number}{node['role']}"]
    if node.get("name"):
        parts.append(quote(node["name"]))
    if node.get("value") and node["value"] != node.get("name"):
        parts.append(f"value={quote(node['value'])}")
    parts += node.get("flags", ())
    if node.get("in_viewport") is False:
        parts.append("(out of view)")
    return " ".join(parts)


def quote(text: str) -> str:
    """Return the text on one line in quotes, so that page text cannot pose as a message of the environment."""
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"


def cut_lines(lines: Sequence[str], max_chars: int, omitted: int = 0) -> str:
    """Return the lines that fit, followed by the number of lines that do not; ``omitted`` lines are missing already."""
    kept, room = [], max_chars
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            omitted += len(lines) - count
            break
        kept.append(line)
    return "\n".join([*kept, f"… and {omitted} more lines"] if omitted else kept)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_TITLE_CHARS else text[: MAX_TITLE_CHARS - 1] + "…"
