"""Lease the sandboxes of a task, one for the agent and a fresh one for each grading, and divide the time of a step.

An agent that slows a part of a step down gets an outcome and not a timeout of the step: the runner sets the deadline of
a call (``TurnEnv.deadline``), and the parts of a step end before it: the action, the collection of the files, the lease
of a grading sandbox, the grading. Each part gets a share of the time that is left, so the parts add up to less than the
step, whatever its timeout is.
"""

import math
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from ...sandbox import NodeLost, SandboxBroken, SandboxError, SandboxLease, SandboxLost, SandboxSpec, Tree, lease
from ...sandbox.errors import LeaseTimeout

STEP_TIMEOUT_S = 30.0
"""Time of a step for which nobody set a deadline."""
USED_SHARE = 0.8
"""Share of a step that its parts may use; the rest is for a guest agent that answers late."""
GRADING_SHARE = 0.5
"""Share of the time that is left at the start of a grading for its commands; the other part is for the lease."""
ACTION_SHARE = 0.6
"""Share of a step for the command of an action; the other part is for reading the files that it changed."""
COLLECTION_SHARE = 0.25
"""Share of the time that is left at the submission for ending the agent's processes and reading its files."""
MIN_GRADING_SHARE = 0.3
"""With a smaller share left, the files are not graded: the lease could take longer, and the agent caused it."""
MIN_TIMEOUT_S = 0.1
LEASE_TIMEOUT_S = 15.0
"""Shorter than the timeout of a step, so that a missing sandbox is reported as a SandboxError and not as a timeout."""
FILE_TIMEOUT_S = 10.0

T = TypeVar("T")


def end_of_step(deadline: float) -> float:
    """Return until when the parts of a step that begins now may take, on the monotonic clock."""
    now = monotonic()
    return now + USED_SHARE * (STEP_TIMEOUT_S if math.isinf(deadline) else max(0.0, deadline - now))


def latest_grading(until: float) -> float:
    """Return until when a grading may begin in a step that begins now and whose parts end at ``until``."""
    return until - MIN_GRADING_SHARE * left(until)


def left(until: float, most_s: float = math.inf) -> float:
    """Return the seconds left, at most ``most_s`` and at least ``MIN_TIMEOUT_S``, as the timeout of a call."""
    return max(MIN_TIMEOUT_S, min(most_s, until - monotonic()))


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
