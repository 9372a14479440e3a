"""Lease the sandboxes of a task: one for the agent, and a fresh one for each grading."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, TypeVar

from ...sandbox import SandboxLease, SandboxLost, SandboxSpec, lease
from .task import Files

LEASE_TIMEOUT_S = 15.0
"""Shorter than the timeout of a step, so that a missing sandbox is reported as a SandboxError and not as a timeout."""
FILE_TIMEOUT_S = 10.0
GRADING_TIMEOUT_S = 20.0
"""Total time of the commands of one grading; shorter than a step, so that slow code is not a sandbox error."""

T = TypeVar("T")


def sandbox_extras(box: SandboxLease) -> dict[str, Any]:
    """Return the image and digest of a sandbox, for ``info["extras"]``."""
    return {"sandbox": {"image": box.spec.image, "digest": box.digest}}


def open_sandbox(spec: SandboxSpec, files: Files) -> SandboxLease:
    """Lease a fresh sandbox and write these files to its work folder.

    Raises:
        SandboxError: the lease or the write failed; no lease is held then.
    """
    box = lease(spec, timeout_s=LEASE_TIMEOUT_S)
    try:
        write_files(box, files)
    except BaseException:
        box.release()
        raise
    return box


def write_files(box: SandboxLease, files: Files) -> None:
    """Write files; a file that begins with ``#!`` becomes executable. Raises like ``SandboxLease.write``."""
    scripts = {path: content for path, content in files.items() if content.startswith(b"#!")}
    plain: Mapping[str, bytes] = {path: content for path, content in files.items() if path not in scripts}
    if plain:
        box.write(plain, timeout_s=FILE_TIMEOUT_S)
    if scripts:
        box.write(scripts, timeout_s=FILE_TIMEOUT_S, executable=True)


def in_fresh_sandbox(spec: SandboxSpec, judge: Callable[[SandboxLease, float], T]) -> T | None:
    """Return the result of ``judge`` in a fresh sandbox; its second argument is the monotonic deadline of its commands.

    A sandbox that is lost during grading is replaced once. Return None if the second sandbox is lost too: the
    submitted code then breaks its sandbox.

    Raises:
        SandboxError: no sandbox can be leased, or its host is lost.
    """
    until = 0.0
    for _ in range(2):
        with lease(spec, timeout_s=LEASE_TIMEOUT_S) as box:
            until = until or monotonic() + GRADING_TIMEOUT_S
            try:
                return judge(box, until)
            except SandboxLost:
                continue
    return None
