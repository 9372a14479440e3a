"""The values of a desktop task: how it starts, and what is left of the world at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....sandbox import Entry, Kind, Tree
from ..computer.elements import Node
from .own_files import HOME, contents, is_own, is_plain, is_trash, shown_path, trashed

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
    """Actions that solve the task; ``{role 'name'}`` stands for the number of an element (``actions.resolve``)."""
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
    world: Tree
    """Every entry in the folders that the agent can write, by path from the root of the sandbox."""
    windows: tuple[Window, ...] = ()
    """In stacking order, the top one last."""
    nodes: Sequence[Node] = ()
    """The elements on the screen, as ``envs/worlds/computer/elements.py`` describes them."""
    answer: str = ""
    """The text of ``done("…")``."""
    gave_up: bool = False
    """Whether the agent ended the episode with ``fail()``."""

    @property
    def files(self) -> dict[str, bytes]:
        """Return every regular file below the home folder by relative path, settings and caches included."""
        home = f"{HOME}/"
        return {path.removeprefix(home): content for path, content in self.world.items() if path.startswith(home)}

    @property
    def documents(self) -> dict[str, bytes | Entry]:
        """Return every file that no application writes by itself, hidden or not, and wherever it is.

        A path is relative to the home folder, or begins with ``/`` if it is elsewhere. A plain file stands as its
        bytes. Everything that is neither a plain file nor a plain folder stands as an ``Entry``: a link, a hard link,
        a named pipe, a file or a folder with another mode than the desktop gives. A file in the place of an
        application's own counts if it has the content of a document of the task.
        """
        given = contents(self.task.files.items())
        found: dict[str, bytes | Entry] = {}
        for path, entry in self.world.entries.items():
            copied = entry.kind is Kind.FILE and entry.content in given and not is_trash(path, entry, self.world)
            if copied or not (self._is_own(path, entry) or (entry.kind is Kind.FOLDER and is_plain(entry))):
                found[shown_path(path)] = entry.content if entry.kind is Kind.FILE and is_plain(entry) else entry
        return found

    @property
    def folders(self) -> frozenset[str]:
        """Return every folder that no application makes by itself, by a path as in ``documents``."""
        return frozenset(
            shown_path(path)
            for path, entry in self.world.entries.items()
            if entry.kind is Kind.FOLDER and not self._is_own(path, entry)
        )

    @property
    def trash(self) -> dict[str, bytes]:
        """Return the files that an application deleted into the Trash, by path there."""
        return trashed(self.world)

    def _is_own(self, path: str, entry: Entry) -> bool:
        return is_own(path, entry) or is_trash(path, entry, self.world)

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
