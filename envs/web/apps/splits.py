"""The splits of the apps' tasks, held out by instance, by template or by site; all are pure functions.

A template or a site is on the same side of a split for every seed.
"""

import zlib
from dataclasses import dataclass

from ....records import SPLITS
from .tasks.catalog import SITES, TEMPLATES

BY = ("instance", "template", "site")
HELD_OUT_EVERY = 5
"""One template and one seed in this many are held out."""
HELD_OUT_SITE = "wiki"


@dataclass(frozen=True, slots=True)
class Instance:
    """The arguments of ``catalog.draw``."""

    template: str
    seed: int


def held_out_templates(site: str) -> tuple[str, ...]:
    """Return the templates of a site that are never trained on: every fifth one in the order of a hash.

    Raises:
        ValueError: the site is unknown.
    """
    if site not in SITES:
        raise ValueError(f"unknown site {site!r}; choose from {', '.join(SITES)}")
    names = sorted((name for name, template in TEMPLATES.items() if template.site == site), key=_hash)
    return tuple(sorted(names[::HELD_OUT_EVERY]))


def templates_of(by: str, split: str, held_out_site: str = HELD_OUT_SITE) -> tuple[str, ...]:
    """Return the templates on one side of a split, as ``site/name``.

    Raises:
        ValueError: ``by``, ``split`` or ``held_out_site`` is unknown.
    """
    for name, value, options in (("by", by, BY), ("split", split, SPLITS), ("held_out_site", held_out_site, SITES)):
        if value not in options:
            raise ValueError(f"unknown `{name}` {value!r}; choose from {', '.join(options)}")
    if by == "instance":
        return tuple(TEMPLATES)
    if by == "site":
        test = split == "test"
        return tuple(name for name, template in TEMPLATES.items() if (template.site == held_out_site) == test)
    held_out = {name for site in SITES for name in held_out_templates(site)}
    return tuple(name for name in TEMPLATES if (name in held_out) == (split == "test"))


def instance(by: str, split: str, index: int, held_out_site: str = HELD_OUT_SITE) -> Instance:
    """Return the task with this index on one side of a split; the templates take turns.

    By instance, the two sides share no seed. By template or site, test and training seeds are the same, so that
    only the template or the site is new.

    Raises:
        ValueError: ``by``, ``split`` or ``held_out_site`` is unknown, or the index is negative.
    """
    names = templates_of(by, split, held_out_site)
    if index < 0:
        raise ValueError(f"the index must not be negative: {index}")
    turn, place = divmod(index, len(names))
    if by == "instance" and split == "test":
        return Instance(names[place], turn * HELD_OUT_EVERY + HELD_OUT_EVERY - 1)
    return Instance(names[place], turn + turn // (HELD_OUT_EVERY - 1))


def _hash(name: str) -> tuple[int, str]:
    return zlib.crc32(name.encode()), name
