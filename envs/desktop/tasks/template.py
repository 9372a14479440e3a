"""Task templates: what a template draws from a seed, and the registry of an application's templates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...computer.templates import Template, TemplateRegistry
from ...draws import SeededDraws
from ..task import DesktopTask
from .acts import Acts
from .expected import Expected


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
                oracle=plan.oracle,
                near_misses=plan.near_misses,
                data=plan.expected,
            )

        return attempt


class DesktopRegistry(TemplateRegistry[DesktopTemplate]):
    """The templates of one application, or of several applications together."""

    def template(self, *uses: str, visual: bool = False) -> Callable[[Planner], Planner]:
        """Return a decorator that registers a planner.

        ``uses`` are the applications that the task needs; by default the registry's own.
        """
        return self.register(
            lambda name, planner: DesktopTemplate(self.group, name, uses or (self.group,), visual, planner)
        )
