"""The screen: pointer and key input by XTEST, captures, and the windows that the window manager reports."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from Xlib import X, Xatom
from Xlib.display import Display
from Xlib.error import XError
from Xlib.ext import xtest
from Xlib.protocol.event import ClientMessage

from .errors import Refused
from .keyboard import Key, Keyboard
from .png import PngEncoder
from .shm import Capture

WINDOW_TYPE, TOOLTIP = "_NET_WM_WINDOW_TYPE", "_NET_WM_WINDOW_TYPE_TOOLTIP"


class Tooltips:
    """The tooltips on a screen. It selects events of the root window, which must be passed to ``note``.

    They come half a second after the pointer rests, so that a screen would depend on the agent's speed. Applications
    of GTK 2 show none by a setting of the image; those of GTK 3 have no such setting.
    """

    def __init__(self, display: Any, root: Any) -> None:
        self.type, self.tooltip = display.intern_atom(WINDOW_TYPE), display.intern_atom(TOOLTIP)
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


BUTTONS = {"left": 1, "middle": 2, "right": 3}
WHEEL = {"up": 4, "down": 5, "left": 6, "right": 7}
ALL_BUTTONS = range(1, 8)
LOCKS = X.LockMask | X.Mod2Mask
MAX_WINDOWS = 64
"""Windows that are reported; a flood of more costs no more."""
MAX_TITLE_CHARS = 200
BACKGROUND_TOP, BACKGROUND_BOTTOM = (0x24, 0x3B, 0x53), (0x4F, 0x7C, 0x9E)
USER_INPUT = 2
"""The source indication of requests by a person, in the specification of window managers."""
MOVE_FRAME = X.NorthWestGravity | 1 << 8 | 1 << 9 | USER_INPUT << 12
"""Flags of a request that moves a window: what x and y mean, that both are given, and its source."""


@dataclass(frozen=True)
class Window:
    """A window that the window manager manages; ``rect`` includes its frame."""

    id: int
    title: str
    application: str
    pid: int
    rect: tuple[int, int, int, int]
    focused: bool


class Screen:
    """One connection to the X server. Raises OSError: the X server is gone."""

    def __init__(self, name: str) -> None:
        self.display: Any = Display(name)
        self.display.set_error_handler(lambda *_: None)
        screen = self.display.screen()
        self.root, self.width, self.height = screen.root, screen.width_in_pixels, screen.height_in_pixels
        self.capture = Capture(self.display, self.width, self.height)
        self.encoder = PngEncoder(self.width, self.height)
        self.keyboard = Keyboard(self.display)
        self.shift = self.keyboard.for_combination("shift")[0][0]
        self.atoms: dict[str, int] = {}
        self.tooltips = Tooltips(self.display, self.root)

    def close(self) -> None:
        """Close the connection and release its memory."""
        # Closing politely could wait for a dead server.
        with contextlib.suppress(OSError):
            self.display.display.socket.close()
        self.capture.close()

    def sync(self) -> None:
        """Wait until the X server has executed all requests so far."""
        self.display.sync()
        # No more than there are now: a program may cause events faster than they are read.
        for _ in range(self.display.pending_events()):
            self.tooltips.note(self.display.next_event())

    def png(self) -> bytes:
        """Return the screen as it is now."""
        return self.encoder.encode(self.capture.take())

    def hide_tooltips(self) -> bool:
        """Hide all tooltips; return whether there were any, so that the windows below them are painted again."""
        self.sync()
        return self.tooltips.hide()

    def point(self, x: float, y: float) -> tuple[int, int]:
        """Return the pixel. Raises Refused if it is outside the screen."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise Refused(f"({x:g}, {y:g}) is outside the screen of {self.width} x {self.height}")
        return int(x), int(y)

    def move(self, x: int, y: int) -> None:
        """Move the pointer."""
        xtest.fake_input(self.display, X.MotionNotify, x=x, y=y)

    def button(self, number: int, down: bool) -> None:
        """Press or release a button of the pointer."""
        xtest.fake_input(self.display, X.ButtonPress if down else X.ButtonRelease, number)

    def click(self, number: int, count: int = 1) -> None:
        """Click where the pointer is."""
        for _ in range(count):
            self.button(number, True)
            self.button(number, False)

    def key(self, code: int, down: bool) -> None:
        """Press or release a key."""
        xtest.fake_input(self.display, X.KeyPress if down else X.KeyRelease, code)

    def type(self, keys: list[Key]) -> None:
        """Press keys one after another."""
        for code, shifted in keys:
            if shifted:
                self.key(self.shift, True)
            self.key(code, True)
            self.key(code, False)
            if shifted:
                self.key(self.shift, False)

    def release_input(self) -> None:
        """Release every key, button and lock, and free the spare keys."""
        held = self.display.query_keymap()
        for code in range(8, 256):
            if held[code // 8] >> code % 8 & 1:
                self.key(code, False)
        for number in ALL_BUTTONS:
            self.button(number, False)
        locks = self.root.query_pointer().mask & LOCKS
        for mask, name in ((X.LockMask, "Caps_Lock"), (X.Mod2Mask, "Num_Lock")):
            if locks & mask:
                self.type(self.keyboard.for_combination(name))
        self.keyboard.restore()

    def windows(self) -> list[Window]:
        """Return the managed windows in stacking order, the top one last."""
        ids = self.cardinals(self.root, "_NET_CLIENT_LIST_STACKING")[-MAX_WINDOWS:]
        active = (self.cardinals(self.root, "_NET_ACTIVE_WINDOW") or [0])[0]
        return [window for each in ids if (window := self._window(each, each == active)) is not None]

    def activate(self, window: Window) -> None:
        """Request that the window manager raise and focus a window."""
        self._request(window.id, "_NET_ACTIVE_WINDOW", USER_INPUT, X.CurrentTime, 0, 0, 0)

    def place(self, number: int, x: int, y: int) -> None:
        """Request that the window manager move a window: the left upper corner of its frame to that pixel."""
        self._request(number, "_NET_MOVERESIZE_WINDOW", MOVE_FRAME, x, y, 0, 0)

    def _request(self, number: int, name: str, *data: int) -> None:
        event = ClientMessage(window=number, client_type=self.atom(name), data=(32, list(data)))
        self.root.send_event(event, X.SubstructureRedirectMask | X.SubstructureNotifyMask)

    def paint_background(self) -> None:
        """Paint the root window: a vertical gradient."""
        pixmap = self.root.create_pixmap(1, self.height, self.display.screen().root_depth)
        pen = pixmap.create_gc()
        for y in range(self.height):
            share = y / self.height
            pairs = zip(BACKGROUND_TOP, BACKGROUND_BOTTOM, strict=True)
            red, green, blue = (round(top + (bottom - top) * share) for top, bottom in pairs)
            pen.change(foreground=red << 16 | green << 8 | blue)
            pixmap.point(pen, 0, y)
        self.root.change_attributes(background_pixmap=pixmap)
        self.root.clear_area(0, 0, 0, 0)
        pen.free()
        pixmap.free()

    def atom(self, name: str) -> int:
        """Return the number of an atom."""
        if name not in self.atoms:
            self.atoms[name] = self.display.intern_atom(name)
        return self.atoms[name]

    def _window(self, number: int, focused: bool) -> Window | None:
        window = self.display.create_resource_object("window", number)
        try:
            title = self._text(window, "_NET_WM_NAME") or self._text(window, "WM_NAME")
            names = self._text(window, "WM_CLASS").split("\0")
            geometry = window.get_geometry()
            corner = self.root.translate_coords(window, 0, 0)
            edges = self.cardinals(window, "_NET_FRAME_EXTENTS")
            pid = (self.cardinals(window, "_NET_WM_PID") or [0])[0]
        except XError:
            return None
        left, right, top, bottom = edges if len(edges) == 4 else (0, 0, 0, 0)
        rect = (corner.x - left, corner.y - top, geometry.width + left + right, geometry.height + top + bottom)
        application = (names[1] if len(names) > 1 and names[1] else names[0]).lower()
        return Window(number, title[:MAX_TITLE_CHARS], application[:MAX_TITLE_CHARS], pid, rect, focused)

    def cardinals(self, window: Any, name: str) -> list[int]:
        """Return a property of a window as numbers; empty if it has none."""
        found = window.get_full_property(self.atom(name), X.AnyPropertyType)
        return list(found.value) if found is not None and found.format == 32 else []

    def _text(self, window: Any, name: str) -> str:
        found = window.get_property(self.atom(name), X.AnyPropertyType, 0, 256)
        if found is None or found.format != 8:
            return ""
        encoding = "latin-1" if found.property_type == Xatom.STRING else "utf-8"
        return bytes(found.value).decode(encoding, errors="replace")
