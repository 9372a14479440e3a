"""Named points at which a test kills the process, as a power cut would.

``TURNWISE_FAULT=name:3`` sends this process SIGKILL the third time it passes ``point("name")``. Unset, a point costs
one comparison. This is the only fault the product carries, and it acts only on the process itself.
"""

import os
import signal

POINTS = (
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

_name, _, _count = os.environ.get("TURNWISE_FAULT", "").partition(":")
_left = int(_count or 1)


def point(name: str) -> None:
    """Die here, if the environment says so."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
