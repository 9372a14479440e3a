"""Draw the tasks of ``turnwise/Code-v0`` from the procedural families or from a task folder."""

from pathlib import Path

from ..errors import NotTrainable
from .families import FAMILIES, SPLITS
from .families import draw as drawn
from .task import CodeTask
from .task_folder import MANIFEST, BadTask, find, has_forgeable_tests, load

MIX = "mix"


class Instances:
    """Draw the task for a seed and a split.

    Raises:
        ValueError: the family is unknown.
        BadTask: the folder contains no task.
    """

    def __init__(self, family: str = MIX, folder: str | None = None) -> None:
        if family != MIX and family not in FAMILIES:
            raise ValueError(f"unknown family {family!r} of turnwise/Code-v0; choose from mix, {', '.join(FAMILIES)}")
        self._family = family
        self._folder = Path(folder) if folder else None
        self._read: dict[Path, CodeTask] = {}
        if self._folder:
            for split in SPLITS:
                find(self._folder, split)

    def check_trainable(self) -> None:
        """Check that the agent cannot forge the verdict of any task of the split ``train``.

        Raises:
            NotTrainable: a task has hidden tests and is not ``trusted``, or a task does not load.
        """
        try:
            folders = find(self._folder, "train") if self._folder else ()
            self._refuse_forgeable([folder for folder in folders if has_forgeable_tests(folder)])
            for folder in folders:
                load(folder)
        except BadTask as error:
            raise NotTrainable(str(error)) from error

    def _refuse_forgeable(self, forgeable: list[Path]) -> None:
        if not forgeable:
            return
        others = f" and {len(forgeable) - 1} more" if len(forgeable) > 1 else ""
        raise NotTrainable(
            f"task {forgeable[0].name}{others} of {self._folder} has hidden `tests/`: they share a process with the "
            "agent's code, which can forge their verdict, and a policy learns to. Use `[[case]]` with `call` and "
            f"`returns` in {MANIFEST} instead; or set `trusted = true` there if the policy is harmless; or evaluate "
            "only, with `turnwise eval`"
        )

    def draw(self, seed: int, split: str) -> CodeTask:
        """Return the task of a seed; tasks of a folder are indexed by ``seed % count``.

        Raises:
            ValueError: the split is unknown.
            BadTask: a task folder is invalid.
        """
        if split not in SPLITS:
            raise ValueError(f"unknown split {split!r} of turnwise/Code-v0; choose from {', '.join(SPLITS)}")
        if self._folder is None:
            return drawn(seed, split, self._family)
        paths = find(self._folder, split)
        path = paths[seed % len(paths)]
        if path not in self._read:
            self._read[path] = load(path)[0]
        return self._read[path]
