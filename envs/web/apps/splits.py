"""Which tasks are trained on and which are held out, three ways: new instances of known templates, new templates on
known sites, and a new site. All are pure functions; a template or site goes to one side whatever the seed.
"""

import zlib
from dataclasses import dataclass

from ..env import SPLITS
from .tasks.catalog import SITES, TEMPLATES

BY = ("instance", "template", "site")
HELD_OUT_SHARE = 5
"""One template in this many is held out, and one seed in this many."""
HELD_OUT_SITE = "wiki"


@dataclass(frozen=True, slots=True)
class Instance:
    """What ``templates.draw`` takes."""

    template: str
    seed: int


def held_out_templates(site: str) -> tuple[str, ...]:
    """The templates of a site that are never trained on: every fifth, in an order that tells nothing.

    Raises:
        ValueError: no such site.
    """
    if site not in SITES:
        raise ValueError(f"unknown site {site!r}; choose from {', '.join(SITES)}")
    names = sorted((name for name, each in TEMPLATES.items() if each.site == site), key=_shuffled)
    return tuple(sorted(names[::HELD_OUT_SHARE]))


def templates_of(by: str, split: str, held_out_site: str = HELD_OUT_SITE) -> tuple[str, ...]:
    """The templates of one side of a split, by ``site/name``.

    Raises:
        ValueError: no such way to split, split or site.
    """
    if by not in BY or split not in SPLITS or held_out_site not in SITES:
        raise ValueError(
            f"no split {split!r} by {by!r} without {held_out_site!r}: choose from {', '.join(SPLITS)}, by "
            f"{', '.join(BY)}, without one of {', '.join(SITES)}"
        )
    if by == "instance":
        return tuple(TEMPLATES)
    if by == "site":
        return tuple(name for name, each in TEMPLATES.items() if (each.site == held_out_site) == (split == "test"))
    held_out = {name for site in SITES for name in held_out_templates(site)}
    return tuple(name for name in TEMPLATES if (name in held_out) == (split == "test"))


def instance(by: str, split: str, index: int, held_out_site: str = HELD_OUT_SITE) -> Instance:
    """The task number ``index`` of one side: templates take turns. By instance, the seeds of both sides are apart; by
    template and site, seeds are those of training, so that nothing but the template or the site is new.

    Raises:
        ValueError: no such way to split, split or site, or a negative index.
    """
    names = templates_of(by, split, held_out_site)
    if index < 0:
        raise ValueError(f"the index {index} is negative")
    turn, place = divmod(index, len(names))
    if by == "instance" and split == "test":
        return Instance(names[place], turn * HELD_OUT_SHARE + HELD_OUT_SHARE - 1)
    return Instance(names[place], turn + turn // (HELD_OUT_SHARE - 1))


def _shuffled(name: str) -> tuple[int, str]:
    return zlib.crc32(name.encode()), name
