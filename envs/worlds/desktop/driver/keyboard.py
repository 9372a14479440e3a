"""The keys to press for a text or a combination; a character without a key gets a spare one."""

from __future__ import annotations

import unicodedata
from typing import Any

from Xlib import XK

from .errors import Refused

MODIFIERS = {
    "alt": "Alt_L",
    "cmd": "Super_L",
    "control": "Control_L",
    "ctrl": "Control_L",
    "meta": "Alt_L",
    "option": "Alt_L",
    "shift": "Shift_L",
    "super": "Super_L",
    "win": "Super_L",
}
NAMES = {
    "backspace": "BackSpace",
    "caps_lock": "Caps_Lock",
    "capslock": "Caps_Lock",
    "del": "Delete",
    "enter": "Return",
    "esc": "Escape",
    "page_down": "Next",
    "page_up": "Prior",
    "pagedown": "Next",
    "pageup": "Prior",
    "pgdn": "Next",
    "pgup": "Prior",
    "space": "space",
}
NAMES |= {f"f{number}": f"F{number}" for number in range(1, 13)}
NAMES |= {
    name: name.capitalize()
    for name in ("delete", "down", "end", "escape", "home", "insert", "left", "menu", "return", "right", "tab", "up")
}
CONTROL_CHARACTERS = {"\n": XK.XK_Return, "\r": XK.XK_Return, "\t": XK.XK_Tab, "\b": XK.XK_BackSpace}
UNTYPED = ("Cc", "Cs")
"""The categories of Unicode whose characters no key types: control characters and halves of surrogate pairs."""
UNICODE_KEYSYM = 0x01000000

Key = tuple[int, bool]
"""A key's code and whether Shift is held."""


class Keyboard:
    """The key map of a display, and the spare keys that stand for other characters until ``restore``."""

    def __init__(self, display: Any) -> None:
        self.display = display
        self.keys: dict[int, Key] = {}
        self.spare: list[int] = []
        first, count = display.display.info.min_keycode, 0
        count = display.display.info.max_keycode - first + 1
        self.mapping = [tuple(row) for row in display.get_keyboard_mapping(first, count)]
        self.first = first
        for code, row in enumerate(self.mapping, first):
            if not any(row):
                self.spare.append(code)
            for level in (1, 0):
                if len(row) > level and row[level]:
                    known = self.keys.get(row[level])
                    if known is None or known[1] or known[0] > code:
                        self.keys[row[level]] = (code, bool(level))
        self.bound: dict[int, int] = {}

    def changed(self) -> bool:
        """Return whether an application changed the key map."""
        rows = self.display.get_keyboard_mapping(self.first, len(self.mapping))
        return [tuple(row)[:2] for row in rows] != [row[:2] for row in self.mapping]

    def restore(self) -> None:
        """Free the spare keys."""
        for code in self.bound.values():
            self.display.change_keyboard_mapping(code, [(0,) * len(self.mapping[0])])
        self.bound.clear()

    def for_text(self, text: str) -> list[Key]:
        """Return the keys to press for a text, in order; spare keys are bound to characters without a key.

        Raises:
            Refused: no key types a character, or the text has more characters without a key than there are spare keys.
        """
        wanted = [keysym_of(letter) for letter in text]
        missing = list(dict.fromkeys(one for one in wanted if one not in self.keys and one not in self.bound))
        if len(missing) > len(self.spare):
            raise Refused(f"the text has {len(missing)} characters that are not on the keyboard; type it in parts")
        if len(missing) > len(self.spare) - len(self.bound):
            self.restore()
            missing = list(dict.fromkeys(one for one in wanted if one not in self.keys))
        taken = set(self.bound.values())
        free = [code for code in self.spare if code not in taken]
        for keysym, code in zip(missing, free, strict=False):
            self.display.change_keyboard_mapping(code, [(keysym,) * len(self.mapping[0])])
            self.bound[keysym] = code
        return [self.keys.get(one) or (self.bound[one], False) for one in wanted]

    def for_combination(self, combination: str) -> list[Key]:
        """Return the keys of ``ctrl+shift+s``, modifiers first. Raises Refused: a key is unknown."""
        names = split_combination(combination)
        keys = []
        for index, name in enumerate(names):
            low = name.lower()
            known = MODIFIERS.get(low) or NAMES.get(low) or (name if len(name) > 1 else "")
            last = index == len(names) - 1
            if not last and low not in MODIFIERS:
                raise Refused(f"press: {name!r:.40} is not a modifier; use ctrl, shift, alt or super")
            keysym = XK.string_to_keysym(known) if known else keysym_of(name)
            if not keysym:
                raise Refused(f'press: unknown key {name!r:.40}; for example press("ctrl+s") or press("Return")')
            keys.append(self.keys.get(keysym) or self.for_text(chr(keysym & 0xFFFFFF))[0])
        return keys


def split_combination(combination: str) -> list[str]:
    """Return the names in ``ctrl+s``; the key ``+`` may be the last one."""
    # Spaces only: another character that Python strips is a key of its own, or is refused.
    text = combination.strip(" ") or combination
    if text.endswith("+"):
        return [name.strip(" ") for name in text[:-1].rstrip("+").split("+") if name.strip(" ")] + ["+"]
    return [name.strip(" ") or " " for name in text.split("+")]


def keysym_of(letter: str) -> int:
    """Return the keysym of a character. Raises Refused: no key types it."""
    code = ord(letter)
    if letter in CONTROL_CHARACTERS:
        return int(CONTROL_CHARACTERS[letter])
    if unicodedata.category(letter) in UNTYPED:
        raise Refused(f"no key types the character U+{code:04X}")
    return code if 0x20 <= code < 0x7F or 0xA0 <= code <= 0xFF else UNICODE_KEYSYM | code
