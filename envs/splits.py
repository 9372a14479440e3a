"""The splits of a catalog of task templates, held out by instance, by template or by part; all are pure functions.

A part is what a template's tasks need: a site, or an application. A template or a part is on the same side of a split
for every seed.
"""

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..records import SPLITS
from .draws import HELD_OUT_EVERY
from .options import one_of


@dataclass(frozen=True, slots=True)
class Instance:
    """The template and the seed of a task."""

    template: str
    seed: int


@dataclass(frozen=True, slots=True)
class TemplateSplits:
    """The splits of templates named ``group/name``."""

    parts: Mapping[str, Collection[str]]
    """The parts that each template needs, by its name."""
    part: str
    """The noun of a part, such as ``site``: the third value of ``by``."""

    @property
    def by(self) -> tuple[str, str, str]:
        """The choices of what the test side holds out."""
        return "instance", "template", self.part

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of the templates."""
        return tuple(dict.fromkeys(name.partition("/")[0] for name in self.parts))

    @property
    def all_parts(self) -> tuple[str, ...]:
        """The parts of all templates."""
        return tuple(dict.fromkeys(part for parts in self.parts.values() for part in parts))

    def held_out_templates(self, group: str) -> tuple[str, ...]:
        """Return the templates of a group that are never trained on: every fifth one in the order of a hash.

        Raises:
            ValueError: the group is unknown.
        """
        one_of("group", group, self.groups)
        names = [name for name in self.parts if name.partition("/")[0] == group]
        names.sort(key=lambda name: (zlib.crc32(name.encode()), name))
        return tuple(sorted(names[::HELD_OUT_EVERY]))

    def templates_of(self, by: str, split: str, held_out_part: str) -> tuple[str, ...]:
        """Return the templates on one side of a split.

        By part, the test side holds every template that needs the held-out part.

        Raises:
            ValueError: ``by``, ``split`` or the part is unknown.
        """
        one_of("by", by, self.by)
        one_of("split", split, SPLITS)
        one_of(f"held_out_{self.part}", held_out_part, self.all_parts)
        if by == "instance":
            return tuple(self.parts)
        test = split == "test"
        if by == self.part:
            return tuple(name for name, parts in self.parts.items() if (held_out_part in parts) == test)
        held_out = {name for group in self.groups for name in self.held_out_templates(group)}
        return tuple(name for name in self.parts if (name in held_out) == test)


@dataclass(frozen=True, slots=True)
class TemplateChoice:
    """The options of an environment that select the templates of its tasks. Raises ValueError: an option is unknown."""

    splits: TemplateSplits
    by: str
    held_out_part: str
    template: str | None = None
    """The only template, with the seed unchanged; None: the templates of the split take turns."""
    left_out: Collection[str] = ()
    """Templates that the environment cannot show."""

    def __post_init__(self) -> None:
        self.splits.templates_of(self.by, "test", self.held_out_part)
        if self.template is not None and self.template not in self.splits.parts:
            raise ValueError(f"unknown template {self.template!r}; choose from {', '.join(self.splits.parts)}")

    def instance(self, index: int, split: str) -> Instance:
        """Return the task with this index on one side of the split.

        By instance, the two sides share no seed. By template or part, test and training seeds are the same, so that
        only the template or the part is new.

        Raises:
            ValueError: ``split`` is unknown, or the index is negative.
        """
        if self.template is not None:
            return Instance(self.template, index)
        if index < 0:
            raise ValueError(f"the index must not be negative: {index}")
        names = self.splits.templates_of(self.by, split, self.held_out_part)
        shown = [name for name in names if name not in self.left_out]
        turn, place = divmod(index, len(shown))
        if self.by == "instance" and split == "test":
            return Instance(shown[place], turn * HELD_OUT_EVERY + HELD_OUT_EVERY - 1)
        return Instance(shown[place], turn + turn // (HELD_OUT_EVERY - 1))
