"""The values of a desktop task: how it starts, and what is left of the world at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..computer.elements import Node

SETTINGS_FILE = ".config/glib-2.0/settings/keyfile"


@dataclass(frozen=True, slots=True)
class DesktopTask:
    """One task on a desktop."""

    goal: str
    applications: tuple[str, ...] = ()
    """Shell commands, started in the home folder one after the other; each opens a window."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The home folder at the start, by relative path; a path that ends with ``/`` is an empty folder."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """GSettings that differ from their defaults, by schema and key, as GVariant text."""
    oracle: tuple[str, ...] = ()
    """Actions that solve the task; ``{role 'name'}`` stands for the number of an element (``oracle.resolve``)."""
    near_misses: tuple[tuple[str, ...], ...] = ()
    """Lists of actions that almost solve it, each of which must fail."""
    data: Any = None
    """Anything that ``check`` needs."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window on the screen."""

    title: str
    application: str
    """The class of the window in lower case, such as ``mousepad``."""
    rect: tuple[int, int, int, int]
    """x, y, width and height in pixels, with the frame."""
    focused: bool


@dataclass(frozen=True, slots=True)
class EndState:
    """The world at the end of an episode."""

    task: DesktopTask
    files: Mapping[str, bytes]
    """Every file below the home folder by relative path, settings and caches included."""
    folders: frozenset[str] = frozenset()
    """Every folder below the home folder by relative path, without hidden ones."""
    windows: tuple[Window, ...] = ()
    """In stacking order, the top one last."""
    nodes: Sequence[Node] = ()
    """The elements on the screen, as ``envs/computer/elements.py`` describes them."""
    answer: str = ""
    """The text of ``done("…")``."""
    gave_up: bool = False
    """Whether the agent ended the episode with ``fail()``."""

    @property
    def documents(self) -> dict[str, bytes]:
        """Return the files without hidden ones."""
        return {
            path: content
            for path, content in self.files.items()
            if not any(part.startswith(".") for part in path.split("/"))
        }

    def settings(self, schema: str) -> dict[str, str]:
        """Return the GSettings of a schema that differ from their defaults, as GVariant text by key."""
        found: dict[str, str] = {}
        group, wanted = "", schema.replace(".", "/")
        for line in self.files.get(SETTINGS_FILE, b"").decode(errors="replace").split("\n"):
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1]
            elif group == wanted and "=" in line:
                key, _, value = line.partition("=")
                found[key] = value
        return found
