"""The end of the agent's sandbox: its processes are ended, and what it left is taken, before anything is judged.

Nothing here is trusted further than that: files are read with the payload's rights by a server that is none of its
processes, and whatever is written later is written to a sandbox that nobody looks at again.
"""

from dataclasses import dataclass

from ...sandbox import FileError, SandboxLease
from .fresh_sandbox import FILE_SECONDS
from .grading.forbidden import outside
from .task import Files

HALT = """
mine=$$; found=""
for process in /proc/[0-9]*; do
  number=${process#/proc/}
  if [ "$number" != 1 ] && [ "$number" != "$mine" ] && [ -O "$process" ]; then
    read -r name < "$process/comm" 2>/dev/null && found="$found $name"
  fi
done
kill -9 -1
echo $found
"""
HALT_SECONDS = 5.0
BESIDE = "/tmp"  # noqa: S108 - the sandbox's own, and its home


@dataclass(frozen=True, slots=True)
class Left:
    """What was taken along; None if the work folder could not be read."""

    files: Files | None
    tamper: tuple[str, ...]


def leave(box: SandboxLease) -> Left:
    """End what runs there, and read what lies there.

    Raises:
        SandboxError: the sandbox is gone.
    """
    done = box.exec(["sh", "-c", HALT], timeout_s=HALT_SECONDS)
    running = done.stdout.decode(errors="replace").split()
    tamper = [f"left running: {' '.join(running)[:150]}"] if running else []
    try:
        tamper += outside(box.read(BESIDE, timeout_s=FILE_SECONDS))
    except FileError:
        tamper.append("left more in its home than can be read")
    try:
        return Left(box.read(".", timeout_s=FILE_SECONDS), tuple(tamper))
    except FileError:
        return Left(None, tuple(tamper))
