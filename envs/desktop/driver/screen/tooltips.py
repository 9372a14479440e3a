"""Tooltips, which come half a second after the pointer rests, so that a screen would depend on the agent's speed.

Applications of GTK 2 show none by a setting of the image; those of GTK 3 have no such setting.
"""

from __future__ import annotations

from typing import Any

from Xlib import X, Xatom
from Xlib.error import XError

TYPE, TOOLTIP = "_NET_WM_WINDOW_TYPE", "_NET_WM_WINDOW_TYPE_TOOLTIP"


class Tooltips:
    """The tooltips on a screen. It selects events of the root window, which must be passed to ``note``."""

    def __init__(self, display: Any, root: Any) -> None:
        self.type, self.tooltip = display.intern_atom(TYPE), display.intern_atom(TOOLTIP)
        self.mapped: list[Any] = []
        """Windows without a frame, such as menus and tooltips, that appeared since ``hide``."""
        root.change_attributes(event_mask=X.SubstructureNotifyMask)

    def note(self, event: Any) -> None:
        """Take an event of the X server."""
        if event.type == X.MapNotify and event.override:
            self.mapped.append(event.window)

    def hide(self) -> bool:
        """Hide the tooltips that have appeared; return whether there were any."""
        mapped, self.mapped = self.mapped, []
        found = [window for window in mapped if self._is_tooltip(window)]
        for window in found:
            window.unmap()
        return bool(found)

    def _is_tooltip(self, window: Any) -> bool:
        try:
            types = window.get_full_property(self.type, Xatom.ATOM)
        except XError:
            return False
        return types is not None and self.tooltip in types.value
