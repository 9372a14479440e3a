"""Task templates: what a template draws from a seed, and the registry of an application's templates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...draws import NoInstance, SeededDraws
from ..task import DesktopTask
from .acts import Acts
from .expected import Expected

MAX_ATTEMPTS = 100


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
class Template:
    """A kind of task on one application or several."""

    group: str
    name: str
    uses: tuple[str, ...]
    """The applications that the task needs."""
    visual: bool
    """Whether the task needs a screenshot: the accessibility tree lacks what the goal names."""
    plan: Planner

    def draw(self, seed: int) -> DesktopTask:
        """Return the task of a seed, a pure function of it; its ``data`` is the ``Expected`` end state.

        Raises:
            NoInstance: the seed has no such task, which is a bug of the template.
        """
        for attempt in range(MAX_ATTEMPTS):
            try:
                plan = self.plan(SeededDraws(f"{self.group} {self.name} {seed} {attempt}"))
            except NoInstance:
                continue
            return DesktopTask(
                goal=plan.goal,
                applications=plan.applications,
                files=plan.files,
                oracle=plan.oracle,
                near_misses=plan.near_misses,
                data=plan.expected,
            )
        raise NoInstance(f"{self.group}/{self.name}, seed {seed}")


class TemplateRegistry:
    """The templates of one application, or of several applications together."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.templates: dict[str, Template] = {}

    def template(self, *uses: str, visual: bool = False) -> Callable[[Planner], Planner]:
        """Return a decorator that registers a planner under its function's name, with hyphens.

        ``uses`` are the applications that the task needs; by default the registry's own.
        """

        def register(planner: Planner) -> Planner:
            name = planner.__name__.replace("_", "-")
            self.templates[name] = Template(self.group, name, uses or (self.group,), visual, planner)
            return planner

        return register
