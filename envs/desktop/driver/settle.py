"""Wait until the desktop shows the effects of an action: until no process of it has anything left to do."""

from __future__ import annotations

from .deadline import left_s
from .session import Session

SETTLE_TIMEOUT_S = 1.5
OPEN_HOLD_S = 0.1
"""Rest must hold so long after an application started: it may begin more work once its window is there."""
EXTENSION_S = 4.0
"""Extra time for threads that are ready to run but do not get a processor, on a loaded machine."""


def settle(session: Session, timeout_s: float = SETTLE_TIMEOUT_S, hold_s: float = 0.0) -> bool:
    """Wait until all processes rest, for ``hold_s`` at least; return False if some still work after the timeout.

    The wait ends with the deadline of the request, too: the launcher serves one call at a time.

    Raises:
        DesktopLost: the launcher or a part of the session has ended.
    """
    session.screen.sync()
    left = left_s()
    left = timeout_s + EXTENSION_S if left is None else left
    timeout_s = min(timeout_s, left)
    status = session.user.call("rest", timeout_s, hold_s, min(EXTENSION_S, left - timeout_s))
    session.take(status)
    return bool(status["rests"])
