"""A task's sandboxes: the one the agent acts in, and the fresh ones in which what it left is judged."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, TypeVar

from ...sandbox import SandboxLease, SandboxLost, SandboxSpec, lease
from .task import Files

LEASE_SECONDS = 15.0
"""Shorter than any environment's deadline: where there is no sandbox, that is what is told."""
FILE_SECONDS = 10.0
JUDGING_SECONDS = 20.0
"""What all commands of one judging may take together: less than a step, or slow code would be the world's failure."""

T = TypeVar("T")


def made_of(box: SandboxLease) -> dict[str, Any]:
    """What to put on record of a sandbox: its image, as it was exactly."""
    return {"sandbox": {"image": box.spec.image, "digest": box.digest}}


def open_box(spec: SandboxSpec, files: Files) -> SandboxLease:
    """A fresh sandbox with these files in its work folder.

    Raises:
        SandboxError: the world failed; nothing is held then.
    """
    box = lease(spec, timeout_s=LEASE_SECONDS)
    try:
        put(box, files)
    except BaseException:
        box.release()
        raise
    return box


def put(box: SandboxLease, files: Files) -> None:
    """Write files; those that begin with ``#!`` can be executed. Raises as ``SandboxLease.write``."""
    scripts = {path: content for path, content in files.items() if content.startswith(b"#!")}
    plain: Mapping[str, bytes] = {path: content for path, content in files.items() if path not in scripts}
    if plain:
        box.write(plain, timeout_s=FILE_SECONDS)
    if scripts:
        box.write(scripts, timeout_s=FILE_SECONDS, executable=True)


def judged(spec: SandboxSpec, judge: Callable[[SandboxLease, float], T]) -> T | None:
    """What ``judge`` finds in a fresh sandbox; it is told until when (monotonic) its commands may run.

    A sandbox that is lost meanwhile is replaced once: the world may fail. Code that breaks its sandbox breaks the
    second as well, and gains nothing by it: None.

    Raises:
        SandboxError: there is no sandbox to be had, or its host is lost.
    """
    until = 0.0
    for _ in range(2):
        with lease(spec, timeout_s=LEASE_SECONDS) as box:
            until = until or monotonic() + JUDGING_SECONDS
            try:
                return judge(box, until)
            except SandboxLost:
                continue
    return None
