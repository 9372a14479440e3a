"""Report a page: the nodes of its accessibility tree, in the format of ``envs/worlds/computer/elements.py``."""

from __future__ import annotations

import asyncio
from typing import Any

MAX_NODES = 1500
"""Nodes reported per page; above it, only nodes in the viewport."""
MAX_VISITED = 50_000
MAX_STRING_CHARS = 2000
"""Limit of one name, value, title or address; a cut string ends with an ellipsis."""
MAX_PAGE_CHARS = 1_000_000
"""Limit of all names and values of one page."""
TRANSPARENT_ROLES = frozenset({"none", "generic", "InlineTextBox", "LineBreak", "RootWebArea", "ListMarker"})
"""Roles without information: their children are reported in their place."""
FLAGS = ("focused", "disabled", "checked", "pressed", "selected", "expanded", "required", "invalid", "readonly")

Rect = tuple[float, float, float, float]


class Numbers:
    """Numbers of nodes: a node keeps its number as long as its document lives, and no number is used twice."""

    def __init__(self) -> None:
        self.by_node: dict[tuple[str, int], int] = {}
        self.nodes: dict[int, tuple[str, int]] = {}

    def assign(self, document: str, nodes: list[dict[str, Any]]) -> None:
        """Replace ``backend_node_id`` of each node of a document by its number, ``id``, in order."""
        for node in nodes:
            if "backend_node_id" in node:
                key = (document, node.pop("backend_node_id"))
                number = self.by_node.setdefault(key, len(self.by_node) + 1)
                self.nodes[number] = key
                node["id"] = number


async def observe(session: Any, width: int, height: int) -> tuple[str, list[dict[str, Any]], int]:
    """Return the title, the nodes in document order with ``backend_node_id``, and the number of omitted nodes."""
    tree, snapshot = await asyncio.gather(
        session.send("Accessibility.getFullAXTree"), session.send("DOMSnapshot.captureSnapshot", {"computedStyles": []})
    )
    rects, clickable = layout_of(snapshot)
    title_index = snapshot["documents"][0]["title"]
    title = snapshot["strings"][title_index] if title_index >= 0 else ""
    nodes = build_nodes(tree["nodes"], rects, clickable, width, height)
    kept = nodes if len(nodes) <= MAX_NODES else [node for node in nodes if node.get("in_viewport", True)][:MAX_NODES]
    kept = limit_text(kept, MAX_PAGE_CHARS)
    return shorten(title, MAX_STRING_CHARS), kept, len(nodes) - len(kept)


def limit_text(nodes: list[dict[str, Any]], max_chars: int) -> list[dict[str, Any]]:
    """Return the first nodes whose names and values have at most ``max_chars`` characters together."""
    for count, node in enumerate(nodes):
        max_chars -= len(node["name"]) + len(node.get("value", ""))
        if max_chars < 0:
            return nodes[:count]
    return nodes


def layout_of(snapshot: dict[str, Any]) -> tuple[dict[int, Rect], set[int]]:
    """Return the rectangles of the main document's nodes by backend node id, and the ids with click listeners.

    A rectangle is x, y, width and height in CSS pixels of the window.
    """
    main = snapshot["documents"][0]
    backend = main["nodes"]["backendNodeId"]
    left, top = main.get("scrollOffsetX", 0), main.get("scrollOffsetY", 0)
    layout = main["layout"]
    rects = {
        backend[index]: (x - left, y - top, width, height)
        for index, (x, y, width, height) in zip(layout["nodeIndex"], layout["bounds"], strict=True)
    }
    return rects, {backend[index] for index in main["nodes"].get("isClickable", {}).get("index", [])}


def build_nodes(
    tree: list[dict[str, Any]], rects: dict[int, Rect], clickable: set[int], width: int, height: int
) -> list[dict[str, Any]]:
    """Return the nodes of an accessibility tree that carry information, in document order."""
    by_id = {node["nodeId"]: node for node in tree}
    roots = [node["nodeId"] for node in tree if node.get("parentId") not in by_id]
    nodes: list[dict[str, Any]] = []
    stack = [(root, 0, "") for root in reversed(roots)]
    visited = 0
    while stack and visited < MAX_VISITED:
        visited += 1
        node_id, depth, ancestor_name = stack.pop()
        source = by_id[node_id]
        node = build_node(source, rects, clickable, ancestor_name)
        if node is not None:
            if node["role"] == "clickable" and not node["name"]:
                node["name"] = only_text(source, by_id)
            backend = source.get("backendDOMNodeId")
            node["depth"] = depth
            if backend is not None:
                node["backend_node_id"] = backend
            if backend in rects:
                node["rect"] = [round(side) for side in rects[backend]]
                # An element without a size cannot be scrolled into view.
                if min(rects[backend][2:]) > 0:
                    node["in_viewport"] = in_viewport(rects[backend], width, height)
            nodes.append(node)
        child_depth = depth + (node is not None)
        name = node["name"] if node else ancestor_name
        children = reversed(source.get("childIds", ()))
        stack += [(child, child_depth, name) for child in children if child in by_id]
    return nodes


def only_text(source: dict[str, Any], by_id: dict[str, dict[str, Any]]) -> str:
    """Return the text of a node whose only child is a text; otherwise an empty string."""
    found = ""
    for child in (by_id[child_id] for child_id in source.get("childIds", ()) if child_id in by_id):
        if text(child, "role") != "StaticText" or found:
            return ""
        found = text(child, "name")
    return found


def build_node(
    source: dict[str, Any], rects: dict[int, Rect], clickable: set[int], ancestor_name: str
) -> dict[str, Any] | None:
    """Return one node; None if it carries no information beyond the name of its nearest reported ancestor."""
    role = text(source, "role")
    backend = source.get("backendDOMNodeId")
    listens = backend in clickable
    if role == "RootWebArea":
        return None
    if _labels_another(source, rects):
        return None
    if source.get("ignored") or role in TRANSPARENT_ROLES:
        return {"role": "clickable", "name": text(source, "name")} if listens and backend in rects else None
    name = text(source, "name")
    if role == "StaticText":
        return {"role": "text", "name": name} if name and name != ancestor_name else None
    node: dict[str, Any] = {"role": role, "name": name}
    if value := text(source, "value"):
        node["value"] = value
    flags = []
    for item in source.get("properties", ()):
        held = item["value"].get("value")
        if item["name"] in FLAGS and held not in (False, "false", None, ""):
            flags.append(item["name"])
        elif item["name"] in ("expanded", "checked", "pressed") and held in (False, "false"):
            flags.append(f"not {item['name']}")
    if flags:
        node["flags"] = flags
    if listens and role not in ("button", "link"):
        node["clickable"] = True
    return node


def _labels_another(source: dict[str, Any], rects: dict[int, Rect]) -> bool:
    """Return whether the node is the label of a control, such as a checkbox, that is more than a hidden pixel."""
    reasons = [reason["value"] for reason in source.get("ignoredReasons", ()) if reason["name"] == "labelFor"]
    controls = [one.get("backendDOMNodeId") for reason in reasons for one in reason.get("relatedNodes", ())]
    return any(one in rects and min(rects[one][2:]) > 1 for one in controls)


def in_viewport(rect: Rect, width: int, height: int) -> bool:
    """Return whether any of the rectangle lies in the window."""
    x, y, rect_width, rect_height = rect
    return x < width and y < height and x + rect_width > 0 and y + rect_height > 0


def text(source: dict[str, Any], key: str) -> str:
    """Return a string property of an accessibility node as one line of bounded length."""
    return shorten(" ".join(str(source.get(key, {}).get("value", "")).split()), MAX_STRING_CHARS)


def shorten(string: str, max_chars: int) -> str:
    """Return the string, cut with an ellipsis if it is longer than ``max_chars``."""
    return string if len(string) <= max_chars else string[: max_chars - 1] + "…"
