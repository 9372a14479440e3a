"""Compare a desktop without applications with how it was at the start."""

from __future__ import annotations

import contextlib

from Xlib import X
from Xlib.error import XError

from .screen import Screen

VOLATILE = frozenset({"_NET_ACTIVE_WINDOW", "_NET_CLIENT_LIST", "_NET_CLIENT_LIST_STACKING", "_MOTIF_DRAG_WINDOW"})
"""Properties of the root window that change without effect on the next episode."""
SELECTIONS = ("PRIMARY", "SECONDARY", "CLIPBOARD")


class Baseline:
    """The state of the X server before the first application."""

    def __init__(self, screen: Screen) -> None:
        self.properties = _properties(screen)
        self.unmanaged = len(_mapped(screen))
        self.size = _size(screen)
        self.pointer = screen.display.get_pointer_control()._data
        self.keys = screen.display.get_keyboard_control()._data["global_auto_repeat"]

    def differences(self, screen: Screen) -> list[str]:
        """Remove properties that applications added, and return what else differs, as texts; empty if nothing does."""
        screen.sync()
        found = [f"window {window.title!r}" for window in screen.windows()]
        if len(_mapped(screen)) > self.unmanaged:
            found.append("windows outside of the window manager")
        properties = _properties(screen)
        for name in properties.keys() - self.properties.keys():
            screen.root.delete_property(screen.atom(name))
            del properties[name]
        if properties != self.properties:
            changed = set(properties.items()) ^ set(self.properties.items())
            found.append(f"properties {', '.join(sorted({name for name, _ in changed}))}")
        if _size(screen) != self.size:
            found.append("size of the screen")
        if screen.keyboard.changed():
            found.append("key map")
        control = {name: value for name, value in screen.display.get_pointer_control()._data.items() if name in POINTER}
        if control != {name: self.pointer[name] for name in control}:
            found.append("speed of the pointer")
        if screen.display.get_keyboard_control()._data["global_auto_repeat"] != self.keys:
            found.append("repetition of keys")
        for name in SELECTIONS:
            if screen.display.get_selection_owner(screen.atom(name)) != X.NONE:
                found.append(f"selection {name}")
        if screen.root.query_pointer().mask:
            found.append("held keys or buttons")
        return found


POINTER = ("accel_num", "accel_denom", "threshold")


def _properties(screen: Screen) -> dict[str, str]:
    """Return the properties of the root window as text."""
    found = {}
    for atom in screen.root.list_properties():
        name = screen.display.get_atom_name(atom)
        if name not in VOLATILE:
            held = screen.root.get_full_property(atom, X.AnyPropertyType)
            found[name] = "" if held is None else repr(held.value)
    return found


def _mapped(screen: Screen) -> list[int]:
    """Return the visible children of the root window."""
    found = []
    for child in screen.root.query_tree().children:
        with contextlib.suppress(XError):
            if child.get_attributes().map_state == X.IsViewable:
                found.append(child.id)
    return found


def _size(screen: Screen) -> tuple[int, int]:
    geometry = screen.root.get_geometry()
    return geometry.width, geometry.height
