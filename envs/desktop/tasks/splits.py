"""The splits of the desktop tasks, held out by instance, by template or by application; all are pure functions.

A template or an application is on the same side of a split for every seed.
"""

import zlib
from dataclasses import dataclass

from ....records import SPLITS
from .catalog import APPLICATIONS, GROUPS, TEMPLATES

BY = ("instance", "template", "application")
HELD_OUT_EVERY = 5
"""One template and one seed in this many are held out."""
HELD_OUT_APPLICATION = "spreadsheet"


@dataclass(frozen=True, slots=True)
class Instance:
    """The arguments of ``catalog.draw``."""

    template: str
    seed: int


def held_out_templates(group: str) -> tuple[str, ...]:
    """Return the templates of a group that are never trained on: every fifth one in the order of a hash.

    Raises:
        ValueError: the group is unknown.
    """
    if group not in GROUPS:
        raise ValueError(f"unknown group {group!r}; choose from {', '.join(GROUPS)}")
    names = sorted((name for name, template in TEMPLATES.items() if template.group == group), key=_hash)
    return tuple(sorted(names[::HELD_OUT_EVERY]))


def templates_of(
    by: str, split: str, held_out_application: str = HELD_OUT_APPLICATION, visual: bool = True
) -> tuple[str, ...]:
    """Return the templates on one side of a split, as ``group/name``; without ``visual``, those that text shows.

    By application, the test side holds every template that uses the held-out application.

    Raises:
        ValueError: ``by``, ``split`` or ``held_out_application`` is unknown.
    """
    options = (("by", by, BY), ("split", split, SPLITS), ("held_out_application", held_out_application, APPLICATIONS))
    for name, value, choices in options:
        if value not in choices:
            raise ValueError(f"unknown `{name}` {value!r}; choose from {', '.join(choices)}")
    shown = {name: template for name, template in TEMPLATES.items() if visual or not template.visual}
    if by == "instance":
        return tuple(shown)
    test = split == "test"
    if by == "application":
        return tuple(name for name, template in shown.items() if (held_out_application in template.uses) == test)
    held_out = {name for group in GROUPS for name in held_out_templates(group)}
    return tuple(name for name in shown if (name in held_out) == test)


def instance(
    by: str, split: str, index: int, held_out_application: str = HELD_OUT_APPLICATION, visual: bool = True
) -> Instance:
    """Return the task with this index on one side of a split; the templates take turns.

    By instance, the two sides share no seed. By template or application, test and training seeds are the same, so that
    only the template or the application is new.

    Raises:
        ValueError: ``by``, ``split`` or ``held_out_application`` is unknown, or the index is negative.
    """
    names = templates_of(by, split, held_out_application, visual)
    if index < 0:
        raise ValueError(f"the index must not be negative: {index}")
    turn, place = divmod(index, len(names))
    if by == "instance" and split == "test":
        return Instance(names[place], turn * HELD_OUT_EVERY + HELD_OUT_EVERY - 1)
    return Instance(names[place], turn + turn // (HELD_OUT_EVERY - 1))


def _hash(name: str) -> tuple[int, str]:
    return zlib.crc32(name.encode()), name
