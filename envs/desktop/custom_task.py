"""The base class for a desktop task of yours as an environment: how it starts, and a check of the end.

    class Rename(CustomDesktopEnv):
        def task(self, seed, split):
            name = random.Random(f"{split} {seed}").choice(["a.txt", "b.txt"])
            return DesktopTask(f"Rename draft.txt to {name}.", ("pcmanfm .",), {"draft.txt": b"hello"}, data=name)

        def check(self, end):
            return set(end.documents) == {end.task.data}

Each episode gets the files of the task in the home folder, and its applications in fresh processes. There is no
network. The agent ends the episode with ``done()``, ``done("answer")`` or ``fail()``; then ``check`` runs on the host.
"""

from pathlib import PurePosixPath

from .desktop_session import SPEC
from .env import DesktopEnv
from .task import DesktopTask


class CustomDesktopEnv(DesktopEnv):
    """The base class of a custom desktop task: override ``task`` and ``check``.

    An episode whose files cannot all be read at the end has failed; ``check`` is not called for it.
    """

    def task(self, seed: int, split: str) -> DesktopTask:
        """Return the task of a seed; ``train`` and ``test`` must not share a task."""
        raise NotImplementedError(f"{type(self).__name__} does not implement task(seed, split)")

    def start_episode(self, seed: int, split: str) -> DesktopTask:
        """Return the task of a seed, checked."""
        task = self.task(seed, split)
        method = f"`{type(self).__name__}.task`"
        if not isinstance(task, DesktopTask):
            raise TypeError(f"{method} must return a DesktopTask, not {task!r:.80}")
        for path, content in task.files.items():
            if not isinstance(content, bytes):
                raise TypeError(f"{method}: the file `{path}` must be bytes, not {type(content).__name__}")
            if path.startswith("/") or ".." in PurePosixPath(path).parts or not path.strip("/"):
                raise ValueError(f"{method}: the file `{path}` is outside of the home folder")
        size, limit = sum(map(len, task.files.values())), (SPEC.disk_mib << 20) // 4
        if size > limit:
            raise ValueError(f"{method}: the files have {size >> 20} MiB; the limit is {limit >> 20} MiB")
        if isinstance(task.applications, str):
            raise TypeError(f"{method}: `applications` must be a tuple of commands, not a string")
        if isinstance(task.oracle, str) or any(isinstance(one, str) for one in task.near_misses):
            raise TypeError(f"{method}: `oracle` and each of `near_misses` must be a tuple of actions, not a string")
        return task
