"""The page as numbered text: the accessibility tree, one node a line, as ``inside.look`` tells it."""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_CHARS = 12_000


def page(answer: Mapping[str, Any], max_chars: int = MAX_CHARS) -> str:
    """Tabs, address, what happened, and the nodes; cut to ``max_chars`` at the end of a line.

    A node: ``[12] button 'Save' disabled``; indented by depth; ``(out of view)`` where scrolling is needed; a text
    without a number is only to be read.
    """
    lines = []
    tabs, active = answer.get("tabs", ()), answer.get("active", 0)
    for number, (url, title) in enumerate(tabs):
        mark = "*" if number == active else " "
        if len(tabs) > 1 or number == active:
            lines.append(f"{mark} tab {number}: {quoted(title)} {url}" if title else f"{mark} tab {number}: {url}")
    lines += [f"! {note}" for note in answer.get("notes", ())]
    lines += map(line, answer.get("nodes", ()))
    return cut(lines, max_chars)


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
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ") + "'"


def cut(lines: Sequence[str], max_chars: int) -> str:
    """The lines that fit, and how many do not."""
    kept, left = [], max_chars
    for count, one in enumerate(lines):
        left -= len(one) + 1
        if left < 0:
            kept.append(f"… and {len(lines) - count} more lines")
            break
        kept.append(one)
    return "\n".join(kept)
