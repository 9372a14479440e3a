"""An episode whose files lie in the sandbox of the agent."""

from abc import abstractmethod
from typing import Any, TypeVar

from ...sandbox import SandboxLease
from ..episode import EpisodeEnv
from .fresh_sandbox import open_sandbox
from .grading.pytest_host import prepare_tests
from .task import CodeTask
from .workspace_snapshot import pack, unpack

T = TypeVar("T")


class WorkspaceEnv(EpisodeEnv[T]):
    """An environment that leases a sandbox per episode. A snapshot holds the episode and the files of the sandbox."""

    sandboxed = True
    restorable = True
    _box: SandboxLease | None = None

    @property
    @abstractmethod
    def code_task(self) -> CodeTask:
        """The task of the running episode."""

    def _open(self, task: CodeTask) -> dict[str, Any]:
        """Lease a clean sandbox with the workspace of a task; return its image and digest, for ``extras``.

        Raises:
            SandboxError: no sandbox can be leased, or it fails.
        """
        if task.tests:
            prepare_tests(task)
        self._box = open_sandbox(task.spec, task.workspace)
        return {"sandbox": {"image": self._box.spec.image, "digest": self._box.digest}}

    def snapshot(self) -> tuple[T, bytes] | None:
        """Return the episode and the files of its sandbox; None if the episode is over or has no snapshot now."""
        archive = pack(self._box) if self._box is not None else None
        return None if archive is None else (self.episode, archive)

    def restore(self, snapshot: tuple[T, bytes]) -> None:
        """Continue the episode of a snapshot in a fresh sandbox.

        Raises:
            SandboxError: no sandbox can be leased, or it fails.
        """
        self.close()
        self.episode, archive = snapshot
        if self.code_task.tests:
            prepare_tests(self.code_task)
        self._box = unpack(self.code_task.spec, archive)
        self._over = False

    def close(self) -> None:
        """Release the sandbox, which ends the episode."""
        box, self._box = self._box, None
        if box is not None:
            self._over = True
            box.release()
