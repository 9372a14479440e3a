"""Collect a submission: kill the processes in the agent's sandbox, then read the files, before grading starts.

The guest server reads the files with the rights of the payload and is not one of the payload's processes. Later writes
have no effect, because the sandbox is not read again.
"""

import secrets
from dataclasses import dataclass
from time import monotonic

from ...sandbox import FileError, SandboxLease, SandboxLost
from .deadlines import COLLECTION_SHARE, left
from .grading.forbidden import tampering_outside
from .grading.running import PRINT_FOUND, RUNNING, left_running
from .task import Files

HALT = f"""{RUNNING}
kill -9 -1
read -r nonce
printf %s "$nonce"
{PRINT_FOUND}
"""
"""Shell: end the agent's processes, print a nonce of the standard input and the names of the processes. Without the
nonce, one of them ended or replaced this shell before it ended them."""
HALT_TIMEOUT_S = 1.0
NOT_STARTED = 127
"""Exit code of a command that the guest agent could not start."""
HELD = """
for path; do
  folder=${path%/*}; [ "$folder" != "$path" ] || folder=.
  if [ -e "$path" ] || [ -L "$path" ] || { [ -d "$folder" ] && [ ! -x "$folder" ]; }; then printf '%s\\0' "$path"; fi
done
"""
"""Shell: list those of the given files whose paths are taken, though none of them can be read as a file."""
MAX_CHECKED = 100
TOO_MANY = "left more files than can be judged"
TOO_SLOW = "slowed down the collection of its files"
HOME = "/tmp"  # noqa: S108 - inside the sandbox


@dataclass(frozen=True, slots=True)
class Submission:
    """The collected files (None if they cannot be read, or not in time) and the tampering found."""

    files: Files | None
    tamper: tuple[str, ...]


def collect_submission(box: SandboxLease, pristine: Files, until: float) -> Submission:
    """Kill the agent's processes and read its files, in a share of the time until ``until``.

    An agent that makes this take longer leaves no files. ``pristine`` are the files that it found.

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
        else:
            tamper += _unreadable(box, [path for path in pristine if path not in files], until)
        return Submission(files, tuple(tamper))
    except SandboxLost:
        if monotonic() < until:
            raise
        return Submission(None, (*tamper, TOO_SLOW))


def _end_processes(box: SandboxLease, until: float) -> list[str]:
    nonce = secrets.token_hex(8).encode()
    done = box.exec(["sh", "-c", HALT], timeout_s=left(until, HALT_TIMEOUT_S), stdin=nonce + b"\n")
    while done.exit_code == NOT_STARTED and monotonic() < until - HALT_TIMEOUT_S:
        # The processes of the agent use up the limit, or fill it again while they end.
        done = box.exec(["sh", "-c", HALT], timeout_s=left(until, HALT_TIMEOUT_S), stdin=nonce + b"\n")
    if done.exit_code or not done.stdout.startswith(nonce):
        return ["left processes running that could not be ended"]
    names = left_running(done.stdout)
    return [f"left running: {names}"] if names else []


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


def _unreadable(box: SandboxLease, missing: list[str], until: float) -> list[str]:
    """Report the files in whose place the agent left a link, a folder or another thing that is not read."""
    if not missing:
        return []
    done = box.exec(["sh", "-c", HELD, "sh", *missing[:MAX_CHECKED]], timeout_s=left(until, HALT_TIMEOUT_S))
    return [f"not a readable file any more: {path.decode(errors='replace')}" for path in done.stdout.split(b"\0")[:-1]]
