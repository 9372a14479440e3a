"""Report the desktop as nodes in the format of ``envs/worlds/computer/elements.py``: the windows, the top one first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..screen import Window
from .accessibles import Accessible, Application, Rect
from .roles import DROPPED, ROLES, SHOWING, TRANSPARENT, WINDOW_ROLES, flags_of, has, role_of

MAX_NODES = 1500
MAX_NAME_CHARS = 500
LINE_END = " ⏎ "
"""Between the lines of a text, which an observation shows on one line."""
MAX_DESKTOP_CHARS = 400_000
"""Limit of all names and values."""

LABELED_ROLES = frozenset(("button", "listitem", "menuitem", "row", "tab"))
"""Roles that are named by the texts below them if they have no name."""
MAX_LABEL_OBJECTS, MAX_LABEL_DEPTH = 20, 4

Node = dict[str, Any]


class Numbers:
    """Numbers of nodes: an object keeps its number as long as the episode lasts, and no number is used twice."""

    def __init__(self) -> None:
        self.by_object: dict[tuple[str, str], int] = {}
        self.nodes: dict[int, Node] = {}
        """The nodes of the last observation by number."""
        self.windows: dict[int, int] = {}
        """The X server's windows by number of their nodes."""

    def of(self, bus_name: str, path: str) -> int:
        """Return the number of an object."""
        return self.by_object.setdefault((bus_name, path), len(self.by_object) + 1)


class Tree:
    """Builds the nodes of one observation."""

    def __init__(self, numbers: Numbers, windows: Sequence[Window], width: int, height: int) -> None:
        self.numbers, self.width, self.height = numbers, width, height
        self.windows = list(windows)
        self.nodes: list[Node] = []
        self.room = MAX_DESKTOP_CHARS

    def build(self, applications: Sequence[Application]) -> list[Node]:
        """Return the nodes: menus and other unmanaged windows, the focused window, then the others from the top."""
        left = {id(top): (application, top) for application in applications for top in application.tops}
        placed: list[tuple[Window, Application | None, Accessible | None]] = []
        front = [window for window in reversed(self.windows) if window.focused]
        behind = [window for window in reversed(self.windows) if not window.focused]
        for window in front + behind:
            match = _match(window, list(left.values()))
            if match is not None:
                del left[id(match[1])]
            placed.append((window, *(match or (None, None))))
        for application, popup in left.values():
            if has(popup.states, SHOWING):
                self._add(application, popup, 0, [])
        for window, owner, top in placed:
            self._add_window(window, owner, top)
        self.numbers.nodes = {node["id"]: node for node in self.nodes}
        return self.nodes

    def _add_window(self, window: Window, application: Application | None, top: Accessible | None) -> None:
        above = [one.rect for one in self.windows[self.windows.index(window) + 1 :]]
        node: Node = {"role": "window", "name": window.title, "depth": 0, "rect": list(window.rect)}
        if application is None or top is None:
            number = self.numbers.of("window", str(window.id))
        else:
            number = self.numbers.of(application.bus_name, top.path)
            role = ROLES.get(top.role, "window")
            node["role"] = role if role in WINDOW_ROLES else "window"
        flags = flags_of(top.role, node["role"], top.states & ~(1 << 12)) if top is not None else []
        node |= {"id": number, "in_viewport": self._in_view(window.rect, [])}
        self.numbers.windows[number] = window.id
        node["flags"] = (["focused"] if window.focused else []) + flags
        self._append(node)
        if application is not None and top is not None:
            for child in top.children:
                self._add(application, child, 1, above, window.title)

    def _add(
        self, application: Application, one: Accessible, depth: int, above: Sequence[Rect], outer_name: str = ""
    ) -> None:
        stack = [(one, depth, outer_name)]
        while stack and len(self.nodes) < MAX_NODES and self.room > 0:
            one, depth, outer_name = stack.pop()
            if one.role in DROPPED or not has(one.states, SHOWING):
                continue
            node = _node(one, outer_name)
            if node is not None:
                node["depth"] = depth
                node["id"] = self.numbers.of(application.bus_name, one.path)
                if one.rect is not None and min(one.rect[2:]) > 0 and one.rect[0] > -(1 << 30):
                    node["rect"] = list(one.rect)
                    node["in_viewport"] = self._in_view(one.rect, above)
                self._append(node)
            name = node["name"] if node is not None else outer_name
            stack += [(child, depth + (node is not None), name) for child in reversed(one.children)]

    def _append(self, node: Node) -> None:
        self.room -= len(node["name"]) + len(node.get("value", ""))
        self.nodes.append(node)

    def _in_view(self, rect: Rect, above: Sequence[Rect]) -> bool:
        """Return whether the middle of a rectangle lies on the screen and under no other window."""
        x, y = middle(rect, self.width, self.height)
        inside = 0 <= x < self.width and 0 <= y < self.height
        return inside and not any(left <= x < left + w and up <= y < up + h for left, up, w, h in above)


def middle(rect: Sequence[int], width: int, height: int) -> tuple[int, int]:
    """Return the middle of the part of a rectangle that lies on a screen; outside of the screen if none does."""
    x, y, w, h = rect
    return (max(x, 0) + min(x + w, width)) // 2, (max(y, 0) + min(y + h, height)) // 2


def _match(window: Window, tops: list[tuple[Application, Accessible]]) -> tuple[Application, Accessible] | None:
    """Return the accessible object of a window: of its process, best in its place, then of its title."""
    own = [pair for pair in tops if pair[0].pid == window.pid and has(pair[1].states, SHOWING)]
    own.sort(key=lambda pair: (pair[1].rect != window.rect, pair[1].name != window.title))
    return own[0] if own else None


def _label(one: Accessible) -> str:
    """Return the texts below an object that has no name."""
    words, stack, room = [], [(child, 1) for child in reversed(one.children)], MAX_LABEL_OBJECTS
    while stack and room:
        room -= 1
        child, depth = stack.pop()
        if ROLES.get(child.role) == "text" and has(child.states, SHOWING):
            words.append(child.name or child.text)
        elif depth < MAX_LABEL_DEPTH:
            stack += [(each, depth + 1) for each in reversed(child.children)]
    return " ".join(words)


def _node(one: Accessible, outer_name: str) -> Node | None:
    """Return the node of an object; None if it carries no information beyond the name of its nearest node above."""
    name = " ".join(one.name.split())[:MAX_NAME_CHARS]
    text = one.text.strip("\n").replace("\n", LINE_END)
    if one.role in TRANSPARENT and not name:
        return None
    role = role_of(one.role, one.states)
    if role in ("text", "cell", "listitem") and not name:
        name, text = " ".join(text.split())[:MAX_NAME_CHARS], ""
    if role in LABELED_ROLES and not name:
        name = " ".join(_label(one).split())[:MAX_NAME_CHARS]
    if role == "text":
        return {"role": role, "name": name} if name and name != outer_name else None
    node: Node = {"role": role, "name": name}
    if one.value or text:
        node["value"] = one.value or text
    flags = flags_of(one.role, role, one.states)
    if flags:
        node["flags"] = flags
    return node
