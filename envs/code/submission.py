"""Collect a submission: kill the processes in the agent's sandbox, then read the files, before grading starts.

The guest server reads the files with the rights of the payload and is not one of the payload's processes. Later writes
have no effect, because the sandbox is not read again.
"""

from dataclasses import dataclass
from time import monotonic

from ...sandbox import FileError, SandboxLease, SandboxLost
from .deadlines import COLLECTION_SHARE, left
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
HALT_TIMEOUT_S = 1.0
NOT_STARTED = 127
"""Exit code of a command that the guest agent could not start."""
TOO_MANY = "left more files than can be judged"
TOO_SLOW = "slowed down the collection of its files"
HOME = "/tmp"  # noqa: S108 - inside the sandbox


@dataclass(frozen=True, slots=True)
class Submission:
    """The collected files (None if they cannot be read, or not in time) and the tampering found."""

    files: Files | None
    tamper: tuple[str, ...]


def collect_submission(box: SandboxLease, until: float) -> Submission:
    """Kill the agent's processes and read its files, in a share of the time until ``until``.

    An agent that makes this take longer leaves no files.

    Raises:
        SandboxError: the sandbox is gone.
    """
    until = monotonic() + COLLECTION_SHARE * left(until)
    tamper = list[str]()
    try:
        tamper += _end_processes(box, until)
        tamper += _tampering_at_home(box, until)
        files = _read(box, until)
        if files is None:
            tamper.append(TOO_MANY if monotonic() < until else TOO_SLOW)
        return Submission(files, tuple(tamper))
    except SandboxLost:
        if monotonic() < until:
            raise
        return Submission(None, (*tamper, TOO_SLOW))


def _end_processes(box: SandboxLease, until: float) -> list[str]:
    done = box.exec(["sh", "-c", HALT], timeout_s=left(until, HALT_TIMEOUT_S))
    while done.exit_code == NOT_STARTED and monotonic() < until - HALT_TIMEOUT_S:
        # The processes of the agent use up the limit, or fill it again while they end.
        done = box.exec(["sh", "-c", HALT], timeout_s=left(until, HALT_TIMEOUT_S))
    if done.exit_code:
        return ["left processes running that could not be ended"]
    running = done.stdout.decode(errors="replace").split()
    return [f"left running: {' '.join(running)[:150]}"] if running else []


def _tampering_at_home(box: SandboxLease, until: float) -> list[str]:
    try:
        return list(tampering_outside(box.read(HOME, timeout_s=left(until))))
    except FileError:
        return ["left more in its home than can be read"]


def _read(box: SandboxLease, until: float) -> Files | None:
    try:
        return box.read(".", timeout_s=left(until))
    except FileError:
        return None
