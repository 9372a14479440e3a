"""Task templates: what a template draws from a seed, and the registry of an application's templates."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ....draws import SeededDraws
from ...computer.templates import Template, TemplateRegistry
from ..task import DesktopTask
from .expected import Expected

Acts = tuple[str, ...]

FAIL = "fail()"
SAVE = 'press("ctrl+s")'
ENTER = 'press("Return")'
CLOSE_WINDOW = 'press("alt+F4")'
DIALOG_DELAY = "wait(500)"
"""File dialogs act on a timer after their confirmation."""


def write(text: str) -> str:
    """Type a text into the focus."""
    return f"type({json.dumps(text, ensure_ascii=False)})"


def press(keys: str, times: int = 1) -> Acts:
    """Press a key or a combination some times."""
    return (f'press("{keys}")',) * times


def click(role: str, name: str, nth: int = 1) -> str:
    """Click the element with this role and name, the ``nth`` of them, from 1."""
    return f"click({_element(role, name, nth)})"


def double_click(role: str, name: str) -> str:
    """Double-click the element with this role and name."""
    return f"double_click({_element(role, name, 1)})"


def done(answer: object = None) -> str:
    """End the episode, with an answer if the task requests one."""
    return "done()" if answer is None else f"done({json.dumps(str(answer), ensure_ascii=False)})"


def menu(name: str, *items: str) -> Acts:
    """Open a menu and click its items one after the other."""
    return tuple(click("menuitem", item) for item in (name, *items))


def pick(file: str) -> str:
    """Select a file or a folder of the file manager."""
    return click("listitem", file)


def save_as(name: str) -> Acts:
    """Give a name in a file dialog whose name field has the focus, and confirm."""
    return (*press("ctrl+a"), write(name), ENTER, DIALOG_DELAY)


def _element(role: str, name: str, nth: int) -> str:
    return f"{{{role} '{name}'{f' {nth}' if nth > 1 else ''}}}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a task that its template determines."""

    goal: str
    applications: tuple[str, ...]
    """Commands of the applications to start, as ``DesktopTask`` takes them."""
    files: Mapping[str, bytes]
    expected: Expected
    oracle: Acts
    near_misses: tuple[Acts, ...]
    """Acts that do not end the episode are followed by ``done()``."""


Planner = Callable[[SeededDraws], Plan]


@dataclass(frozen=True, slots=True)
class DesktopTemplate(Template[DesktopTask]):
    """A kind of task on one application or several."""

    uses: tuple[str, ...]
    """The applications that the task needs."""
    visual: bool
    """Whether the task needs a screenshot: the accessibility tree lacks what the goal names."""
    plan: Planner

    def planned(self, seed: int) -> Callable[[SeededDraws], DesktopTask]:
        """Return one attempt to draw a task; its ``data`` is the ``Expected`` end state."""

        def attempt(draws: SeededDraws) -> DesktopTask:
            plan = self.plan(draws)
            return DesktopTask(
                goal=plan.goal,
                applications=plan.applications,
                files=plan.files,
                oracle=_ended(plan.oracle),
                near_misses=tuple(map(_ended, plan.near_misses)),
                data=plan.expected,
            )

        return attempt


def _ended(acts: Acts) -> Acts:
    return acts if acts and acts[-1].startswith(("done(", "fail(")) else (*acts, done())


class DesktopRegistry(TemplateRegistry[DesktopTemplate]):
    """The templates of one application, or of several applications together."""

    def template(self, *uses: str, visual: bool = False) -> Callable[[Planner], Planner]:
        """Return a decorator that registers a planner.

        ``uses`` are the applications that the task needs; by default the registry's own.
        """
        return self.register(
            lambda name, planner: DesktopTemplate(self.group, name, uses or (self.group,), visual, planner)
        )
