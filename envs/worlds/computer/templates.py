"""Task templates, as the web apps and the desktop have them: registered per group, and drawn from a seed."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...draws import NoInstance, SeededDraws

Task = TypeVar("Task")
MAX_ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class Template(Generic[Task]):
    """A kind of task, named ``group/name`` in a catalog. A subclass has the planner and overrides ``planned``."""

    group: str
    name: str

    def planned(self, seed: int) -> Callable[[SeededDraws], Task]:
        """Return the function of one attempt to draw the task of a seed; it raises NoInstance to have another."""
        raise NotImplementedError

    def draw(self, seed: int) -> Task:
        """Return the task of a seed, a pure function of it.

        Raises:
            NoInstance: the seed has no such task, which is a bug of the template.
        """
        attempt = self.planned(seed)
        for number in range(MAX_ATTEMPTS):
            with suppress(NoInstance):
                return attempt(SeededDraws(f"{self.group} {self.name} {seed} {number}"))
        raise NoInstance(f"{self.group}/{self.name}, seed {seed}")


Kind = TypeVar("Kind", bound=Template[Any])
Planner = TypeVar("Planner", bound=Callable[..., Any])


class TemplateRegistry(Generic[Kind]):
    """The templates of one group, by name."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.templates: dict[str, Kind] = {}

    def register(self, make: Callable[[str, Planner], Kind]) -> Callable[[Planner], Planner]:
        """Return a decorator that registers the template of a planner under its function's name, with hyphens."""

        def registered(planner: Planner) -> Planner:
            name = planner.__name__.replace("_", "-")
            self.templates[name] = make(name, planner)
            return planner

        return registered


def catalog(registries: Iterable[TemplateRegistry[Kind]]) -> dict[str, Kind]:
    """Return the templates of all groups by ``group/name``."""
    return {
        f"{registry.group}/{name}": template for registry in registries for name, template in registry.templates.items()
    }


def drawn(templates: Mapping[str, Template[Task]], template: str, seed: int) -> Task:
    """Return the task of a template for a seed. Raises ValueError: the template is unknown."""
    if template not in templates:
        raise ValueError(f"unknown template {template!r}; choose from {', '.join(templates)}")
    return templates[template].draw(seed)
