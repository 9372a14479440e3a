"""Collect a submission: kill the processes in the agent's sandbox, then read the files, before grading starts.

The guest server reads the files with the rights of the payload and is not one of the payload's processes. Later writes
have no effect, because the sandbox is not read again.
"""

from dataclasses import dataclass

from ...sandbox import FileError, SandboxLease
from .fresh_sandbox import FILE_TIMEOUT_S
from .grading.forbidden import tampering_outside
from .task import Files

RUNNING = """
mine=$$; found=""
for process in /proc/[0-9]*; do
  number=${process#/proc/}
  if [ "$number" != 1 ] && [ "$number" != "$mine" ] && [ -O "$process" ]; then
    read -r name < "$process/comm" 2>/dev/null && found="$found $name"
  fi
done
"""
"""Shell: set ``found`` to the names of the agent's running processes."""
HALT = f"""{RUNNING}
kill -9 -1
echo $found
"""
HALT_TIMEOUT_S = 5.0
HOME = "/tmp"  # noqa: S108 - inside the sandbox


@dataclass(frozen=True, slots=True)
class Submission:
    """The collected files (None if the work folder is unreadable) and the tampering found."""

    files: Files | None
    tamper: tuple[str, ...]


def collect_submission(box: SandboxLease) -> Submission:
    """Kill the agent's processes and read its files.

    Raises:
        SandboxError: the sandbox is gone.
    """
    done = box.exec(["sh", "-c", HALT], timeout_s=HALT_TIMEOUT_S)
    running = done.stdout.decode(errors="replace").split()
    tamper = [f"left running: {' '.join(running)[:150]}"] if running else []
    try:
        tamper += tampering_outside(box.read(HOME, timeout_s=FILE_TIMEOUT_S))
    except FileError:
        tamper.append("left more in its home than can be read")
    try:
        return Submission(box.read(".", timeout_s=FILE_TIMEOUT_S), tuple(tamper))
    except FileError:
        return Submission(None, tuple(tamper))
