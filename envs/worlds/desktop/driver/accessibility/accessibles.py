"""Read the accessible objects of all applications from the bus, in a few round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .dbus import BUS, Bus, Call
from .roles import DROPPED, MANAGES_DESCENDANTS, ROLES, SHOWING, TEXT_ROLES, TRANSPARENT, VALUE_ROLES, has

TIMEOUT_S = 2.0
"""Time in which the applications must answer one round; one that does not is reported as not responding."""
MAX_OBJECTS = 4000
"""Objects per application."""
MAX_CELLS = 400
"""Children read of one table or tree."""
MAX_TEXT_CHARS = 4000
ACCESSIBLE, CACHE = "org.a11y.atspi.Accessible", "org.a11y.atspi.Cache"
COMPONENT, TEXT, VALUE = "org.a11y.atspi.Component", "org.a11y.atspi.Text", "org.a11y.atspi.Value"
PROPERTIES = "org.freedesktop.DBus.Properties"
ROOT = "/org/a11y/atspi/accessible/root"
NULL = "/org/a11y/atspi/null"
ROOTS: Call = ("org.a11y.atspi.Registry", ROOT, ACCESSIBLE, "GetChildren", "", ())
SCREEN_COORDINATES = 0
LAYERED_PANE = 30
"""The role of icon views, whose children change without notice."""
LISTED = frozenset({33, 34, 35, 41})
"""Menus, whose hidden children are all in the table."""
UNLISTED = frozenset((COMPONENT, TEXT, VALUE))
"""Interfaces that a child is assumed to have; a call of a missing one has no result."""
MAX_ROUNDS = 24
"""Levels that are read one after the other: an application on a busy machine starts its table when it has windows."""

Rect = tuple[int, int, int, int]


@dataclass
class Accessible:
    """One object of an application."""

    path: str
    parent: str
    index: int
    name: str
    role: int
    states: int
    interfaces: frozenset[str]
    count: int
    """Children that the application reports."""
    rect: Rect | None = None
    text: str = ""
    value: str = ""
    children: list[Accessible] = field(default_factory=list)

    def has_unlisted_children(self) -> bool:
        """Return whether the children must be read, because the table of objects may lack some."""
        if self.role == LAYERED_PANE:
            return True
        own = has(self.states, MANAGES_DESCENDANTS) and self.role not in TRANSPARENT
        return own or (self.count != len(self.children) and self.role not in LISTED)


@dataclass
class Application:
    """The objects of one application; ``tops`` are its windows."""

    bus_name: str
    pid: int
    name: str = ""
    tops: list[Accessible] = field(default_factory=list)
    orphans: dict[str, Accessible] = field(default_factory=dict)
    """Objects by path whose parent is not in the table."""


class Reader:
    """Reads applications; remembers the process of each connection."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.pids: dict[str, int] = {}

    def applications(self) -> tuple[list[Application], list[int]]:
        """Return the applications, and the pids of those that do not respond."""
        roots = self.bus.call(ROOTS, TIMEOUT_S) or [[]]
        names = [name for name, path in roots[0] if path != NULL]
        new = [name for name in names if name not in self.pids]
        wanted: list[Call] = [
            (BUS, "/org/freedesktop/DBus", BUS, "GetConnectionUnixProcessID", "s", (name,)) for name in new
        ]
        for name, reply in zip(new, self.bus.calls(wanted, TIMEOUT_S), strict=True):
            self.pids[name] = reply[0] if reply else 0
        items = self.bus.calls(
            [(name, "/org/a11y/atspi/cache", CACHE, "GetItems", "", ()) for name in names], TIMEOUT_S
        )
        found, hung = [], []
        for name, reply in zip(names, items, strict=True):
            if reply is None:
                hung.append(self.pids[name])
            else:
                found.append(_application(name, self.pids[name], reply[0][:MAX_OBJECTS]))
        for application in found:
            self._add_unlisted(application)
            # An icon that was made before its view had a size is hidden, by its own account, until the view scrolls.
            icons = [
                (pane, icon) for pane in showing(application) if pane.role == LAYERED_PANE for icon in pane.children
            ]
            for _, icon in icons:
                icon.states |= 1 << SHOWING
            self._add_details(application)
            for pane, icon in icons:
                if not _overlap(pane.rect, icon.rect):
                    icon.states &= ~(1 << SHOWING)
        return found, [pid for pid in hung if pid]

    def _add_unlisted(self, application: Application) -> None:
        """Read children that the application's table of objects lacks: of tables, icon views and new containers."""
        checked: set[str] = set()
        for _ in range(MAX_ROUNDS):
            owners = [one for one in showing(application) if one.path not in checked and one.has_unlisted_children()]
            if not owners:
                return
            checked |= {owner.path for owner in owners}
            self._read_children(application, owners)

    def _read_children(self, application: Application, owners: Sequence[Accessible]) -> None:
        name = application.bus_name
        lists = self.bus.calls([(name, owner.path, ACCESSIBLE, "GetChildren", "", ()) for owner in owners], TIMEOUT_S)
        known = {child.path: child for owner in owners for child in owner.children} | application.orphans
        new: list[tuple[Accessible, int, str]] = []
        for owner, reply in zip(owners, lists, strict=True):
            if reply is not None:
                paths = [path for _, path in reply[0][:MAX_CELLS] if path != NULL]
                owner.children = [known[path] for path in paths if path in known]
                new += [(owner, index, path) for index, path in enumerate(paths) if path not in known]
        calls: list[Call] = []
        for _, _, path in new:
            calls.append((name, path, ACCESSIBLE, "GetRole", "", ()))
            calls.append((name, path, ACCESSIBLE, "GetState", "", ()))
            calls.append((name, path, PROPERTIES, "Get", "ss", (ACCESSIBLE, "Name")))
            calls.append((name, path, PROPERTIES, "Get", "ss", (ACCESSIBLE, "ChildCount")))
        replies = self.bus.calls(calls, TIMEOUT_S)
        for number, (owner, index, path) in enumerate(new):
            role, states, label, count = replies[4 * number : 4 * number + 4]
            if role and states and label and count:
                child = Accessible(
                    path, owner.path, index, str(label[0]), role[0], bits_of(states[0]), UNLISTED, count[0]
                )
                owner.children.insert(index, child)

    def _add_details(self, application: Application) -> None:
        """Read the rectangle of every object in view, and the text or value of those that have one."""
        name = application.bus_name
        calls: list[Call] = []
        owners: list[tuple[Accessible, str]] = []
        for one in showing(application):
            role = ROLES.get(one.role, "")
            if COMPONENT in one.interfaces:
                owners.append((one, "rect"))
                calls.append((name, one.path, COMPONENT, "GetExtents", "u", (SCREEN_COORDINATES,)))
            if (
                TEXT in one.interfaces
                and role in TEXT_ROLES
                and not (one.name and role in ("text", "cell", "listitem"))
            ):
                owners.append((one, "text"))
                calls.append((name, one.path, TEXT, "GetText", "ii", (0, MAX_TEXT_CHARS)))
            if VALUE in one.interfaces and role in VALUE_ROLES:
                owners.append((one, "value"))
                calls.append((name, one.path, PROPERTIES, "Get", "ss", (VALUE, "CurrentValue")))
        for (one, what), reply in zip(owners, self.bus.calls(calls, TIMEOUT_S), strict=True):
            if not reply:
                continue
            if what == "rect":
                one.rect = reply[0]
            elif what == "text":
                one.text = str(reply[0])
            else:
                one.value = f"{reply[0]:g}"


def showing(application: Application) -> list[Accessible]:
    """Return the objects in view of an application, each before its children."""
    found, stack, seen = [], list(reversed(application.tops)), {top.path for top in application.tops}
    while stack:
        one = stack.pop()
        if one.role in DROPPED or not has(one.states, SHOWING):
            continue
        # An application may report an object twice, or as its own descendant.
        children = {child.path: child for child in one.children if child.path not in seen}
        seen |= children.keys()
        one.children = list(children.values())
        found.append(one)
        stack += reversed(one.children)
    return found


def _application(bus_name: str, pid: int, items: list[tuple]) -> Application:  # type: ignore[type-arg]
    application = Application(bus_name, pid)
    by_path: dict[str, Accessible] = {}
    for (_, path), _, (_, parent), index, count, interfaces, name, role, _, states in items:
        own = frozenset(interfaces)
        by_path[path] = Accessible(path, parent, index, str(name), role, bits_of(states), own, count)
    for one in by_path.values():
        owner = by_path.get(one.parent)
        if one.path == ROOT:
            application.name = one.name
        elif one.parent == ROOT:
            application.tops.append(one)
        elif owner is None:
            application.orphans[one.path] = one
        else:
            owner.children.append(one)
    for one in by_path.values():
        one.children.sort(key=_order)
    application.tops.sort(key=_order)
    return application


def _overlap(one: Rect | None, other: Rect | None) -> bool:
    """Return whether two rectangles have a common pixel."""
    if one is None or other is None:
        return False
    return all(one[side] < other[side] + other[side + 2] and other[side] < one[side] + one[side + 2] for side in (0, 1))


def bits_of(states: list[int]) -> int:
    """Return the states as one number."""
    return states[0] | states[1] << 32 if len(states) > 1 else 0


def _order(one: Accessible) -> tuple[int, int]:
    """Order siblings as the application does; items of a menu have no index and keep the order of their creation."""
    digits = one.path.rpartition("/")[2]
    return one.index, int(digits) if digits.isdigit() else 0
