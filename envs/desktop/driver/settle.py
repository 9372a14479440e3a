"""Wait until the desktop shows the effects of an action: until no process of it has anything left to do.

Input wakes the application before the X server answers this process, so an action's work is visible in /proc as soon
as it was sent. Two looks are taken. If every thread rests in both and none ran in between, there is an instant at which
all of them rested, and no message can be on its way: a message wakes its reader when it is written. A thread that waits
for the next frame, or defers an update, has a short timeout and does not rest. So the wait is as long as the work, not
a fixed time; a program that never rests ends the wait at its limit.
"""

from __future__ import annotations

from time import monotonic, sleep

from .processes import activity, all_processes
from .session import Session

SETTLE_TIMEOUT_S = 1.5
POLL_INTERVAL_S = 0.001


def settle(session: Session, timeout_s: float = SETTLE_TIMEOUT_S) -> bool:
    """Wait until all processes rest; return False if some still work after the timeout."""
    untimed = session.servers
    until = monotonic() + timeout_s
    while True:
        session.screen.sync()
        before = activity(all_processes(), untimed)
        if before is not None and before == activity(all_processes(), untimed):
            return True
        if monotonic() > until:
            return False
        sleep(POLL_INTERVAL_S)
