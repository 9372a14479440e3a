"""Draw the tasks of ``turnwise/Code-v0`` from the procedural families or from a task folder."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from ....records import SPLITS
from ...draws import draw_for
from ...errors import NotTrainable
from ...options import one_of
from .families import boundary, command, container, formula, ordering, parsing, rename, setting, state
from .families.base import Words
from .task import CodeTask
from .task_folder import MANIFEST, BadTask, find, has_forgeable_tests, load

FAMILIES: dict[str, Callable[[Words], CodeTask]] = {
    family.__name__.rpartition(".")[2]: family.draw
    for family in (boundary, command, container, formula, ordering, parsing, rename, setting, state)
}
MIX = "mix"


def draw(seed: int, split: str, family: str = MIX) -> CodeTask:
    """Return the procedural task of a seed; for ``mix`` the seed selects the family. The splits share no task."""
    attempts = (Words(f"{split} {seed} {family} {attempt}") for attempt in count())
    words = draw_for(split, lambda: ((drawn := next(attempts)), drawn.held_out))
    return FAMILIES[words.choice(tuple(FAMILIES)) if family == MIX else family](words)


class Instances:
    """Draw the task for a seed and a split.

    Raises:
        ValueError: the family is unknown.
        BadTask: the folder contains no task.
    """

    def __init__(self, family: str = MIX, folder: str | None = None) -> None:
        self._family = one_of("family", family, (MIX, *FAMILIES), "turnwise/Code-v0")
        self._folder = Path(folder) if folder else None
        self._read: dict[Path, CodeTask] = {}
        if self._folder:
            for split in SPLITS:
                find(self._folder, split)

    def check_trainable(self) -> None:
        """Check that the agent cannot forge the verdict of any task of the split ``train``.

        Raises:
            NotTrainable: a task that is not ``trusted`` has hidden tests or a forgeable case, or a task does not load.
        """
        try:
            folders = find(self._folder, "train") if self._folder else ()
            if forgeable := [folder for folder in folders if has_forgeable_tests(folder)]:
                others = f" and {len(forgeable) - 1} more" if len(forgeable) > 1 else ""
                raise NotTrainable(
                    f"task {forgeable[0].name}{others} of {self._folder} has hidden `tests/`: they share a process "
                    "with the agent's code, which can forge their verdict, and a policy learns to. Use `[[case]]` with "
                    f"`call` and `returns` in {MANIFEST} instead; or set `trusted = true` there if the policy is "
                    "harmless; or evaluate only, with `turnwise eval`"
                )
            for folder in folders:
                if fault := load(folder)[0].forgeable_case():
                    raise NotTrainable(f"{folder / MANIFEST}: {fault}")
        except BadTask as error:
            raise NotTrainable(str(error)) from error

    def draw(self, seed: int, split: str) -> CodeTask:
        """Return the task of a seed; tasks of a folder are indexed by ``seed % count``.

        Raises:
            BadTask: a task folder is invalid.
        """
        if self._folder is None:
            return draw(seed, split, self._family)
        paths = find(self._folder, split)
        path = paths[seed % len(paths)]
        if path not in self._read:
            self._read[path] = load(path)[0]
        return self._read[path]
