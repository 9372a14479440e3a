"""Collect a submission: kill the processes in the agent's sandbox, then read the files, before grading starts.

The guest server reads the files with the rights of the payload and is not one of the payload's processes. Later writes
have no effect, because the sandbox is not read again.
"""

import secrets
from dataclasses import dataclass
from time import monotonic

from ....sandbox import FileError, Kind, SandboxLease, Tree
from ....sandbox.sandbox import WORKSPACE
from .deadlines import COLLECTION_SHARE, left
from .grading.forbidden import tampering_outside
from .grading.running import PRINT_FOUND, RUNNING, left_running

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
TOO_SLOW = "slowed down the collection of its files"
HOME = "/tmp"  # noqa: S108 - inside the sandbox


@dataclass(frozen=True, slots=True)
class Submission:
    """A collected submission."""

    files: Tree | None
    """None if the files cannot be read, or not in time."""
    tamper: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """One line per thing that the files lack though it is no tampering."""


def collect_submission(box: SandboxLease, pristine: Tree, until: float) -> Submission:
    """Kill the agent's processes and read its files, in a share of the time until ``until``.

    An agent that makes this take longer leaves no files. ``pristine`` are the files that it found.

    Raises:
        SandboxBroken: the agent broke the sandbox.
        SandboxLost, NodeLost: something outside ended it.
    """
    until = monotonic() + COLLECTION_SHARE * left(until)
    tamper = list[str]()
    try:
        tamper += _end_processes(box, until)
        tamper += _tampering_at_home(box, until)
        files = box.read_tree(".", timeout_s=left(until))
        gone, ours = missing(files, pristine), pristine.entries.keys() | pristine.folders
        tamper += [f"not a readable file any more: {path}" for path in gone if path in ours]
        tamper += [f"a folder in place of a file: {path}" for path in files.folders if path in pristine]
        return Submission(files, tuple(tamper), tuple(line for path, line in gone.items() if path not in ours))
    except FileError as error:
        return Submission(None, (*tamper, _why(error) if monotonic() < until else TOO_SLOW))


def _end_processes(box: SandboxLease, until: float) -> list[str]:
    nonce = secrets.token_hex(8).encode()
    while True:
        done = box.exec(["sh", "-c", HALT], timeout_s=left(until, HALT_TIMEOUT_S), stdin=nonce + b"\n")
        # The processes of the agent use up the limit, or fill it again while they end.
        if done.exit_code != NOT_STARTED or monotonic() >= until - HALT_TIMEOUT_S:
            break
    if done.exit_code or not done.stdout.startswith(nonce):
        return ["left processes running that could not be ended"]
    names = left_running(done.stdout)
    return [f"left running: {names}"] if names else []


def _tampering_at_home(box: SandboxLease, until: float) -> list[str]:
    try:
        return list(tampering_outside(box.read_tree(HOME, timeout_s=left(until))))
    except FileError:
        return ["left more in its home than can be read"]


def _why(error: FileError) -> str:
    return f"cannot be collected: {str(error).partition(': ')[2] or error}"


def missing(tree: Tree, pristine: Tree) -> dict[str, str]:
    """Return a line for each new entry that the sandbox cannot hand over or that leads out of the work folder."""
    found = dict[str, str]()
    for path, entry in tree.entries.items():
        if entry == pristine.entries.get(path):
            continue
        if entry.kind is Kind.LOST:
            found[path] = f"{entry.text}: {path}"
        elif entry.kind is Kind.LINK and tree.leaves(path, WORKSPACE):
            found[path] = f"leads out of the work folder: {path} -> {entry.text}"
    return found
