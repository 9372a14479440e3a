"""Compare a desktop without applications with how it was at the start, and restore the folders of the user."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from Xlib import X
from Xlib.error import XError

from .screen.screen import Screen

HOME = os.path.realpath("/home/user")
FILE_TIME_S = 1_736_942_400
"""Time of change of every file at the start of an episode: noon of 15 January 2025, so that dialogs show one date."""
KEPT = {
    "/workspace": frozenset({"driver", "0.log"}),
    "/tmp": frozenset(  # noqa: S108 - a path in the sandbox
        {
            "session",
            "desktop",
            ".X11-unix",
            ".X1-lock",
            "Xvfb.log",
            "dbus-daemon.log",
            "openbox.log",
            "at-spi2-registryd.log",
        }
    ),
    "/dev/shm": frozenset(),  # noqa: S108 - a path in the sandbox
}
"""Writable folders, and the entries of the driver that stay."""
VOLATILE = frozenset({"_NET_ACTIVE_WINDOW", "_NET_CLIENT_LIST", "_NET_CLIENT_LIST_STACKING", "_MOTIF_DRAG_WINDOW"})
"""Properties of the root window that change without effect on the next episode."""
SELECTIONS = ("PRIMARY", "SECONDARY", "CLIPBOARD")
SETTINGS_FILE = ".config/glib-2.0/settings/keyfile"
DELETE_TIMEOUT_S = 10


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


def empty_folders() -> None:
    """Remove everything from the writable folders but the driver's own entries. Raises OSError."""
    for folder, kept in KEPT.items():
        with contextlib.suppress(OSError):
            os.chmod(folder, 0o755)  # noqa: S103 - a folder of this user only
        for entry in os.listdir(folder):
            if entry not in kept:
                delete(f"{folder}/{entry}")


def delete(path: str) -> None:
    """Remove a file or a folder with everything in it. Raises OSError."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(path)
    if os.path.lexists(path):
        # Folders without rights, or a tree deeper than Python's recursion.
        subprocess.run(["/bin/chmod", "-R", "u+rwx", path], check=False, capture_output=True, timeout=DELETE_TIMEOUT_S)
        subprocess.run(["/bin/rm", "-rf", path], check=True, capture_output=True, timeout=DELETE_TIMEOUT_S)


def write_home(files: Mapping[str, str], settings: Mapping[str, Mapping[str, str]]) -> None:
    """Write the home folder: files as base64 by relative path, and settings by schema and key. Raises OSError."""
    os.makedirs(HOME, exist_ok=True)
    for path, content in files.items():
        target = Path(HOME, path)
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(base64.b64decode(content))
    if settings:
        lines = []
        for schema, values in settings.items():
            lines.append(f"[{schema.replace('.', '/')}]")
            lines += [f"{key}={value}" for key, value in values.items()]
        target = Path(HOME, SETTINGS_FILE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n")
    for root, folders, names in os.walk(HOME):
        for name in (*folders, *names):
            os.utime(f"{root}/{name}", (FILE_TIME_S, FILE_TIME_S))
    os.utime(HOME, (FILE_TIME_S, FILE_TIME_S))


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
