"""The page as numbered text: the accessibility tree, one node a line, as ``driver.observe`` tells it."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..web.driver.observe import short

MAX_CHARS = 12_000
MAX_LINE = 300
"""Characters of an address or a title."""


def page(answer: Mapping[str, Any], max_chars: int = MAX_CHARS) -> str:
    """Tabs, address, what happened, and the nodes. What is longer than ``max_chars`` is told without what lies outside
    the window, and cut at the end of a line if it still is.

    A node: ``[12] button 'Save' disabled``; indented by depth; ``(out of view)`` where scrolling is needed; a text
    without a number is only to be read.
    """
    lines = []
    tabs, active = answer.get("tabs", ()), answer.get("active", 0)
    for number, (url, title) in enumerate(tabs):
        mark = "*" if number == active else " "
        if len(tabs) > 1 or number == active:
            said = f"{quoted(short(title, MAX_LINE))} " if title else ""
            lines.append(f"{mark} tab {number}: {said}{short(url, MAX_LINE)}")
    lines += [f"! {note}" for note in answer.get("notes", ())]
    nodes, more = answer.get("nodes", ()), answer.get("more", 0)
    told = [*lines, *map(line, nodes)]
    if more or sum(map(len, told)) + len(told) > max_chars:
        seen = [node for node in nodes if node.get("seen", True)]
        told, more = [*lines, *map(line, seen)], more + len(nodes) - len(seen)
    return cut(told, max_chars, more)


def line(node: Mapping[str, Any]) -> str:
    """One node."""
    number = f"[{node['id']}] " if "id" in node and (node["role"] != "text" or node.get("heard")) else ""
    parts = [f"{'  ' * min(node.get('depth', 0), 12)}{number}{node['role']}"]
    if node.get("name"):
        parts.append(quoted(node["name"]))
    if node.get("value") and node["value"] != node.get("name"):
        parts.append(f"value={quoted(node['value'])}")
    parts += node.get("flags", ())
    if node.get("seen") is False:
        parts.append("(out of view)")
    return " ".join(parts)


def quoted(text: str) -> str:
    """In quotes, so that what a page says cannot pass for what we say."""
    return "'" + " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'") + "'"


def cut(lines: Sequence[str], max_chars: int, more: int = 0) -> str:
    """The lines that fit, and how many do not, ``more`` among them."""
    kept, left = [], max_chars
    for count, one in enumerate(lines):
        left -= len(one) + 1
        if left < 0:
            more += len(lines) - count
            break
        kept.append(one)
    return "\n".join([*kept, f"… and {more} more lines"] if more else kept)
