"""Failpoints: named places at which a test kills this process with SIGKILL.

With ``TURNWISE_FAILPOINT=name:3``, the process is killed the third time it reaches ``failpoint("name")``. Without the
variable, a failpoint costs one comparison.
"""

import os
import signal

FAILPOINTS = (
    "group_closed",
    "group_scored",
    "before_lease",
    "after_lease",
    "after_optimizer",
    "after_acknowledge",
    "after_push",
    "evaluating",
    "checkpoint_written",
    "checkpoint_renamed",
    "checkpoint_committed",
)

_name, _, _count = os.environ.get("TURNWISE_FAILPOINT", "").partition(":")
_left = int(_count or 1)


def failpoint(name: str) -> None:
    """Kill this process if the environment selects ``name`` and its count is reached."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
