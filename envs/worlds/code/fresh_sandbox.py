"""Lease the sandboxes of a task: one for the agent, and a fresh one for each grading."""

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from ....sandbox import NodeLost, SandboxBroken, SandboxError, SandboxLease, SandboxLost, SandboxSpec, Tree, lease
from ....sandbox.errors import LeaseTimeout
from .deadlines import GRADING_SHARE, left

LEASE_TIMEOUT_S = 15.0
"""Shorter than the timeout of a step, so that a missing sandbox is reported as a SandboxError and not as a timeout."""
FILE_TIMEOUT_S = 10.0

T = TypeVar("T")


def open_sandbox(spec: SandboxSpec, tree: Tree) -> SandboxLease:
    """Lease a fresh sandbox and put a tree in place in its work folder.

    Raises:
        SandboxError: the lease or the write failed; no lease is held then.
    """
    box = lease(spec, timeout_s=LEASE_TIMEOUT_S)
    try:
        box.write_tree(".", tree, timeout_s=FILE_TIMEOUT_S)
    except BaseException:
        box.release()
        raise
    return box


def in_fresh_sandbox(
    spec: SandboxSpec, purpose: str, judge: Callable[[SandboxLease, float], T], until: float
) -> T | None:
    """Return the result of ``judge`` in a fresh sandbox; its second argument is the monotonic deadline of its commands.

    A sandbox that held hidden tests or inputs is leased again for the same ``purpose`` only. So the agent of another
    episode cannot find out what remains of them, such as a counter of the kernel.

    A sandbox that ends during grading is replaced once. Return None if the submitted code breaks both of them, or
    breaks the first one and the second does not come in time.

    Args:
        until: when the grading must end, on the monotonic clock; a share of the time is for the lease.

    Raises:
        SandboxError: no sandbox can be leased, or something outside ended one of the two.
    """
    spec = spec.model_copy(update={"purpose": purpose})
    judged_until = None
    grading_s = GRADING_SHARE * left(until)
    first: SandboxError | None = None
    while judged_until is None or monotonic() < judged_until:
        try:
            box = lease(spec, timeout_s=left(until, left(until) - (0.0 if first else grading_s)))
        except LeaseTimeout:
            if isinstance(first, SandboxBroken):
                return None
            raise
        judged_until = judged_until or min(until, monotonic() + grading_s)
        with box:
            try:
                return judge(box, judged_until)
            except (SandboxBroken, SandboxLost, NodeLost) as error:
                if first is None:
                    first = error
                elif not isinstance(error, SandboxBroken):
                    raise
                elif isinstance(first, SandboxBroken):
                    return None
                else:
                    # The loss counts: an error that counts as an outcome of the agent would end its episode with 0.
                    raise first from error
    if first is not None and not isinstance(first, SandboxBroken):
        raise first
    return None
