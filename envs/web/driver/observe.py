"""What there is to see on a page: the nodes of its accessibility tree, with where they lie."""

from __future__ import annotations

import asyncio
from typing import Any

MAX_NODES = 1500
"""Nodes told of one page; a person would not read more either. Beyond them, of what is in the window alone."""
MAX_WALKED = 50_000
MAX_TEXT = 2000
"""Characters of one name, value, title or address; what is cut ends in an ellipsis."""
MAX_TEXTS = 1_000_000
"""Characters of all that is told of one page."""
SILENT = frozenset({"none", "generic", "InlineTextBox", "LineBreak", "RootWebArea", "ListMarker"})
"""Roles that say nothing by themselves: their children are told in their place."""
FLAGS = ("focused", "disabled", "checked", "pressed", "selected", "expanded", "required", "invalid", "readonly")

Rect = tuple[float, float, float, float]


class Numbers:
    """Numbers for nodes: the same node keeps its number as long as its document lives, and none is given twice."""

    def __init__(self) -> None:
        self.by_node: dict[tuple[str, int], int] = {}
        self.nodes: dict[int, tuple[str, int]] = {}

    def give(self, document: str, nodes: list[dict[str, Any]]) -> None:
        """Number the nodes of a look at a document, in order: ``id`` in place of ``at``."""
        for node in nodes:
            if "at" in node:
                key = (document, node.pop("at"))
                number = self.by_node.setdefault(key, len(self.by_node) + 1)
                self.nodes[number] = key
                node["id"] = number


async def look(session: Any, width: int, height: int) -> tuple[str, list[dict[str, Any]], int]:
    """The title; the nodes worth telling, in document order, each ``at`` its backend node; and how many more there
    are.
    """
    tree, shot = await asyncio.gather(
        session.send("Accessibility.getFullAXTree"),
        session.send("DOMSnapshot.captureSnapshot", {"computedStyles": []}),
    )
    rects, clickable = places(shot)
    named = shot["documents"][0]["title"]
    title = shot["strings"][named] if named >= 0 else ""
    nodes = told(tree["nodes"], rects, clickable, width, height)
    kept = nodes if len(nodes) <= MAX_NODES else [node for node in nodes if node.get("seen", True)][:MAX_NODES]
    kept = fitting(kept, MAX_TEXTS)
    return short(title, MAX_TEXT), kept, len(nodes) - len(kept)


def fitting(nodes: list[dict[str, Any]], characters: int) -> list[dict[str, Any]]:
    """The first nodes, as many as have no more characters to them."""
    for count, node in enumerate(nodes):
        characters -= len(node["name"]) + len(node.get("value", ""))
        if characters < 0:
            return nodes[:count]
    return nodes


def places(shot: dict[str, Any]) -> tuple[dict[int, Rect], set[int]]:
    """By backend node of the main document: its rectangle in the window (x, y, width, height, CSS pixels); and which
    have a listener for clicks.
    """
    main = shot["documents"][0]
    backend = main["nodes"]["backendNodeId"]
    left, top = main.get("scrollOffsetX", 0), main.get("scrollOffsetY", 0)
    layout = main["layout"]
    rects = {
        backend[index]: (x - left, y - top, wide, high)
        for index, (x, y, wide, high) in zip(layout["nodeIndex"], layout["bounds"], strict=True)
    }
    return rects, {backend[index] for index in main["nodes"].get("isClickable", {}).get("index", [])}


def told(
    tree: list[dict[str, Any]],
    rects: dict[int, Rect],
    clickable: set[int],
    width: int,
    height: int,
) -> list[dict[str, Any]]:
    """See ``look``."""
    by_id = {node["nodeId"]: node for node in tree}
    roots = [node["nodeId"] for node in tree if node.get("parentId") not in by_id]
    out: list[dict[str, Any]] = []
    stack = [(name, 0, "") for name in reversed(roots)]
    walked = 0
    while stack and walked < MAX_WALKED:
        walked += 1
        name, depth, above = stack.pop()
        node = by_id[name]
        line = told_one(node, rects, clickable, above)
        if line is not None:
            if line["role"] == "clickable" and not line["name"]:
                line["name"] = only_text(node, by_id)
            where = node.get("backendDOMNodeId")
            line["depth"] = depth
            if where is not None:
                line["at"] = where
            if where in rects:
                line["rect"] = [round(side) for side in rects[where]]
                # What has no size cannot be scrolled to.
                if min(rects[where][2:]) > 0:
                    line["seen"] = in_window(rects[where], width, height)
            out.append(line)
        inner = depth + (line is not None)
        said = line["name"] if line else above
        stack += [(child, inner, said) for child in reversed(node.get("childIds", ())) if child in by_id]
    return out


def only_text(node: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> str:
    """The text of a node that holds nothing else; empty if it does."""
    found = ""
    for child in (by_id[one] for one in node.get("childIds", ()) if one in by_id):
        if text(child, "role") != "StaticText" or found:
            return ""
        found = text(child, "name")
    return found


def told_one(node: dict[str, Any], rects: dict[int, Rect], clickable: set[int], above: str) -> dict[str, Any] | None:
    """What is said of one node; None if nothing is. ``above`` is the name of the nearest node that is told of."""
    role = text(node, "role")
    where = node.get("backendDOMNodeId")
    heard = where in clickable
    if role == "RootWebArea":
        return None
    if node.get("ignored") or role in SILENT:
        return {"role": "clickable", "name": text(node, "name")} if heard and where in rects else None
    name = text(node, "name")
    if role == "StaticText":
        return {"role": "text", "name": name} if name and name != above else None
    line: dict[str, Any] = {"role": role, "name": name}
    if value := text(node, "value"):
        line["value"] = value
    flags = []
    for one in node.get("properties", ()):
        held = one["value"].get("value")
        if one["name"] in FLAGS and held not in (False, "false", None, ""):
            flags.append(one["name"])
        elif one["name"] in ("expanded", "checked", "pressed") and held in (False, "false"):
            flags.append(f"not {one['name']}")
    if flags:
        line["flags"] = flags
    if heard and role not in ("button", "link"):
        line["heard"] = True
    return line


def in_window(rect: Rect, width: int, height: int) -> bool:
    """Whether any of it lies in the window."""
    x, y, wide, high = rect
    return x < width and y < height and x + wide > 0 and y + high > 0


def text(node: dict[str, Any], key: str) -> str:
    """A value of the tree as one line."""
    return short(" ".join(str(node.get(key, {}).get("value", "")).split()), MAX_TEXT)


def short(said: str, characters: int) -> str:
    """Cut, if it is longer than that."""
    return said if len(said) <= characters else said[: characters - 1] + "…"
