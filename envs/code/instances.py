"""Where the tasks of ``turnwise/Code-v0`` come from: the procedural families, or a folder of one's own."""

from pathlib import Path

from .families import FAMILIES, SPLITS
from .families import draw as drawn
from .task import CodeTask
from .task_folder import find, load

MIX = "mix"


class Instances:
    """The task of a seed and a split.

    Raises:
        ValueError: no such family.
        BadTask: the folder holds no task.
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

    def draw(self, seed: int, split: str) -> CodeTask:
        """The task. Of a folder, tasks take turns by seed.

        Raises:
            ValueError: no such split.
            BadTask: a task folder is not as it must be.
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
