"""Tasks on a site, and the templates that they are drawn from.

A task asks for a change of the site's data, an answer, or both. It is solved if the data at the end is the data at the
start with the wanted change and no other, and the answer is the wanted one.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..draws import Deal, NoInstance
from ..state import After, Tables, World, read, same

ATTEMPTS = 100
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Act:
    """What a person does with what they see: an element by its ARIA role and name.

    ``value`` is the text to fill in, the option to select, the key to press, or the answer. Where several elements
    share role and name, ``nth`` counts them from 0.

    Example:
        Act("fill", "textbox", "Password", "plum-42")
    """

    verb: str
    role: str = ""
    name: str = ""
    value: str = ""
    nth: int = 0


Acts = tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Judges an end: called with the database, opened to be read, and the agent's answer or None."""

    start: Tables
    wanted: Tables
    answer: str | None
    """None: no answer is asked for, and any is fine."""

    def __call__(self, connection: sqlite3.Connection, answer: str | None) -> bool:
        """Whether the task is solved."""
        if self.answer is not None and not same_answer(self.answer, answer):
            return False
        found, references = read(connection)
        return same(found, self.wanted, self.start, references)


@dataclass(frozen=True, slots=True)
class AppTask:
    """One instance."""

    site: str
    template: str
    seed: int
    goal: str
    """All that an agent is told."""
    world: Mapping[str, Any]
    """What the site is started with: JSON values."""
    start: str
    """The path that the browser begins at."""
    check: Callable[[sqlite3.Connection, str | None], bool]
    oracle: Acts
    """Solves it."""
    misses: tuple[Acts, ...]
    """Each comes near and must fail."""
    answer: str | None
    """What is to be answered, if anything."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a template makes of a draw: the parts of a task that are its own."""

    goal: str
    oracle: Acts
    misses: tuple[Acts, ...]
    after: After | None = None
    """None: nothing may change."""
    answer: str | None = None


Planner = Callable[[Deal, World], Plan]


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of task on a site."""

    site: str
    name: str
    kind: str
    """``look-up``, ``create``, ``edit``, ``delete``, ``steps``, ``search`` or ``two``: what makes it what it is."""
    plan: Planner
    make_world: Callable[[int], dict[str, Any]]

    def draw(self, seed: int) -> AppTask:
        """The task of a seed: a pure function of it.

        Raises:
            NoInstance: the world of this seed has no such task; a fault of the template.
        """
        data = self.make_world(seed)
        world = World(data)
        for attempt in range(ATTEMPTS):
            try:
                plan = self.plan(Deal(f"{self.site} {self.name} {seed} {attempt}"), world)
            except NoInstance:
                continue
            wanted = plan.after.tables if plan.after else world.tables
            check = Check(world.tables, wanted, plan.answer)
            return AppTask(
                self.site, self.name, seed, plan.goal, data, "/", check, plan.oracle, plan.misses, plan.answer
            )
        raise NoInstance(f"{self.site}/{self.name}, seed {seed}")


class Book:
    """The templates of one site."""

    def __init__(self, site: str, make_world: Callable[[int], dict[str, Any]]) -> None:
        self.site = site
        self.templates: dict[str, Template] = {}
        self._make_world = make_world

    def template(self, kind: str) -> Callable[[Planner], Planner]:
        """Registers a planner under its own name, with hyphens."""

        def registered(planner: Planner) -> Planner:
            name = planner.__name__.replace("_", "-")
            self.templates[name] = Template(self.site, name, kind, planner, self._make_world)
            return planner

        return registered


def same_answer(wanted: str, given: str | None) -> bool:
    """Whether an answer is right: case, white space, a full stop, quotes and the dollar sign do not count, numbers are
    compared by value, and of several things separated by commas the order does not matter.
    """
    if given is None:
        return False
    return sorted(_plain(part) for part in wanted.split(",")) == sorted(_plain(part) for part in given.split(","))


def _plain(text: str) -> str:
    words = " ".join(text.casefold().split()).strip("\"'").rstrip(".").strip("\"'").removeprefix("$").strip()
    # What is not plainly a number is text: of "1e999999999" Decimal makes one that no context can hold.
    return str(Decimal(words).normalize()) if _NUMBER.fullmatch(words) else words
