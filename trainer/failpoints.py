"""Failpoints: named places at which a test kills this process, as a power cut would.

``TURNWISE_FAILPOINT=name:3`` sends this process SIGKILL the third time it reaches ``failpoint("name")``. Without the
variable a failpoint costs one comparison. No other fault is built into the product.
"""

import os
import signal

FAILPOINTS = (
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
