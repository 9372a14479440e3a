"""An episode whose files lie in the sandbox of the agent; its snapshot is an archive that another sandbox unpacks.

An archive holds the folders that the agent can write to, with all that is below them: modes, links, hard links and
modification times to the nanosecond. It is compressed. Sockets have no archive, so that a state with one has no
snapshot. An archive does not hold processes, so it is only taken while none of the agent's processes runs. The archive
leaves and enters a sandbox as bytes; nothing outside a sandbox unpacks it.
"""

from abc import abstractmethod
from typing import Any, TypeVar

from ....sandbox import SandboxBroken, SandboxError, SandboxLease, SandboxLost, SandboxSpec, Tree
from ...episode import EpisodeEnv
from .fresh_sandbox import FILE_TIMEOUT_S, open_sandbox
from .grading.pytest_host import prepare_tests
from .grading.running import RUNNING
from .task import CodeTask

FOLDERS = "workspace tmp dev/shm"
"""The writable folders of a sandbox, relative to its root."""
PACK = f"""{RUNNING}
[ -z "$found" ] || exit 9
cd / || exit 8
[ -z "$(find {FOLDERS} -type s -print -quit)" ] || exit 9
for folder in {FOLDERS}; do
  if [ -O "$folder" ]; then printf '%s\\0' "$folder"; else find "$folder" -mindepth 1 -maxdepth 1 -print0; fi
done | tar -I "gzip -1" -cSf - --format=posix --null --no-unquote -T -
"""
"""Shell: write the archive. The agent cannot change a folder of another owner (``/tmp`` of a container), and tar could
not restore it: the archive then holds only what is below the folder. With ``-S``, the holes of a file stay holes, so
files that fit into a folder fit after they are restored."""
UNPACK = ["tar", "-xzpf", "-", "-C", "/"]

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
        """Lease a clean sandbox with the workspace of a task; return its facts, for ``extras``.

        Raises:
            SandboxError: no sandbox can be leased, or it fails.
        """
        if task.tests:
            prepare_tests(task)
        self._box = open_sandbox(task.spec, task.workspace)
        return {"sandbox": self._box.facts()}

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


def pack(box: SandboxLease) -> bytes | None:
    """Return an archive of the files of a sandbox, at most ``read_mib`` of its spec.

    None if the files alone are not the state of the sandbox (a process of the agent runs), or if they cannot be
    archived: too large, not readable, or the sandbox has ended, which the next step reports.
    """
    try:
        done = box.exec(["sh", "-c", PACK], timeout_s=FILE_TIMEOUT_S, output_kib=box.spec.read_mib << 10)
    except (SandboxBroken, SandboxLost):
        return None
    return done.stdout if done.exit_code == 0 and not (done.timed_out or done.output_limit_exceeded) else None


def unpack(spec: SandboxSpec, archive: bytes) -> SandboxLease:
    """Lease a fresh sandbox with the files of an archive.

    Raises:
        SandboxError: no sandbox can be leased, it fails, or the files do not fit; no lease is held then.
    """
    box = open_sandbox(spec, Tree({}))
    try:
        done = box.exec(UNPACK, timeout_s=FILE_TIMEOUT_S, stdin=archive)
        if done.exit_code:
            why = done.stderr.decode(errors="replace").strip()
            raise SandboxError(f"the files of a snapshot could not be restored: {why[:300]}")
    except BaseException:
        box.release()
        raise
    return box
