"""Tasks on an app, and the templates that they are drawn from.

A task requests a change of the app's data, an answer, or both. It is solved if the final data is the initial data with
the requested change and no other, and the answer is the expected one.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .....draws import SeededDraws
from ....computer.templates import Template, TemplateRegistry
from ...actions import ANSWER
from ..state import ExpectedState, Row, Tables, World, read, states_equal

_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,6})?", re.ASCII)
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(,[0-9]{3})+(?![0-9,])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Act:
    """One action of a solution on an element, addressed by its ARIA role and accessible name.

    ``verb`` is the agent's. ``value`` is the text to fill in, the option to select, the key to press, or the answer.
    ``nth`` counts elements that share role and name, from 0.

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
class Plan:
    """The parts of a task that its template determines."""

    goal: str
    """The text that the agent receives."""
    oracle: Acts
    """A solution."""
    near_misses: tuple[Acts, ...]
    """Attempts that resemble the solution and must fail."""
    expected: ExpectedState | None = None
    """None: nothing may change."""
    answer: str | None = None
    """The expected answer; None accepts any answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTask(Plan):
    """One instance of a template."""

    site: str
    world: Mapping[str, Any]
    """The initial data of the app, as JSON values."""

    def check(self, connection: sqlite3.Connection, answer: str | None) -> bool:
        """Return whether the task is solved, by a read-only database and the agent's answer, or None."""
        if self.answer is not None and not same_answer(self.answer, answer):
            return False
        found, references = read(connection)
        initial: Tables = self.world["tables"]
        return states_equal(found, self.expected.tables if self.expected else initial, initial, references)


Planner = Callable[[SeededDraws, World], Plan]


@dataclass(frozen=True, slots=True)
class AppTemplate(Template[AppTask]):
    """A kind of task on an app; its group is the app's site."""

    kind: str
    """``lookup``, ``search``, ``create``, ``edit``, ``delete``, ``wizard`` (a multi-step form) or ``compound``."""
    plan: Planner
    make_world: Callable[[int], dict[str, Any]]

    def planned(self, seed: int) -> Callable[[SeededDraws], AppTask]:
        """Return one attempt to draw a task in the seed's world."""
        data = self.make_world(seed)
        world = World(data)

        def attempt(draws: SeededDraws) -> AppTask:
            plan = self.plan(draws, world)
            parts = plan.goal, plan.oracle, plan.near_misses, plan.expected, plan.answer
            return AppTask(*parts, site=self.group, world=data)

        return attempt


class AppRegistry(TemplateRegistry[AppTemplate]):
    """The templates of one app."""

    def __init__(self, site: str, make_world: Callable[[int], dict[str, Any]]) -> None:
        super().__init__(site)
        self._make_world = make_world

    def template(self, kind: str) -> Callable[[Planner], Planner]:
        """Return a decorator that registers a planner."""
        return self.register(lambda name, planner: AppTemplate(self.group, name, kind, planner, self._make_world))


def same_answer(expected: str, given: str | None) -> bool:
    """Return whether an answer is right.

    Case, white space, a final full stop, quotes and the dollar sign are ignored; numbers are compared by value, with or
    without commas between thousands; the order of items separated by commas is ignored.
    """
    return given is not None and not _readings(expected).isdisjoint(_readings(given))


def _readings(text: str) -> set[tuple[str, ...]]:
    """Return the normalized items of an answer; two lists if commas may separate items or thousands, as in 100,200."""
    texts = (text, _THOUSANDS.sub(lambda found: found.group().replace(",", ""), text))
    return {tuple(sorted(map(_normalize, text.split(",")))) for text in texts}


def _normalize(text: str) -> str:
    words = " ".join(text.casefold().split()).strip("\"'").rstrip(".").strip("\"'").removeprefix("$").strip()
    # Anything but a plain number stays text: Decimal("1e999999999") exceeds every context.
    return str(Decimal(words).normalize()) if _NUMBER.fullmatch(words) else words


def link(name: str) -> Act:
    """Follow a link."""
    return Act("click", "link", name)


def button(name: str) -> Act:
    """Press a button."""
    return Act("click", "button", name)


def fill(name: str, value: object) -> Act:
    """Replace the text of a field."""
    return Act("fill", "textbox", name, str(value))


def search_for(value: str) -> Act:
    """Fill in the search field."""
    return Act("fill", "searchbox", "Search for", value)


def choose(name: str, option: object) -> Act:
    """Select an option of a drop-down list by its text."""
    return Act("select_option", "combobox", name, str(option))


def radio(name: str) -> Act:
    """Select a radio button."""
    return Act("click", "radio", name)


def tick(name: str) -> Act:
    """Toggle a checkbox."""
    return Act("click", "checkbox", name)


def answer(value: object) -> Act:
    """Answer, which ends the episode."""
    return Act(ANSWER, value=str(value))


def log_in(user: Row) -> Acts:
    """Log in through the menu."""
    return (link("Log in"), fill("User name", user["login"]), fill("Password", user["password"]), button("Log in"))


def as_user(user: Row) -> str:
    """Return the phrase with which a goal names the user to log in as."""
    return f"Log in as {user['login']} (password {user['password']})"
