"""A daemon thread that runs calls in order, and can be abandoned while one of them hangs.

A thread cannot be killed. An abandoned one is never joined; it is counted until its call returns.
"""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from ...base.process.children import copies_end, unblock_signals
from ..base import Adapted, TurnEnv

LOG = logging.getLogger(__name__)

Work = Callable[[], Any]
Deliver = Callable[[Any, BaseException | None], None]
"""Receives the result of a call, or its exception, in the thread."""

_abandoned: list[threading.Thread] = []


def abandoned_threads() -> int:
    """Return how many abandoned threads of this process are still alive."""
    _abandoned[:] = [thread for thread in _abandoned if thread.is_alive()]
    return len(_abandoned)


class Place:
    """The place of an environment in a thread."""

    def __init__(self, env: TurnEnv | None = None) -> None:
        self.env = env
        """None before the environment is made, and once it is closed or elsewhere."""

    @property
    def scoring_s(self) -> float:
        """Seconds by which the running call may exceed its timeout because it scores (``TurnEnv.scoring``)."""
        core = self.env.core if isinstance(self.env, Adapted) else self.env
        return core.scoring_s if isinstance(core, TurnEnv) else 0.0

    def forget_scoring(self) -> None:
        """Begin the next call without the scoring of the one before."""
        core = self.env.core if isinstance(self.env, Adapted) else self.env
        if isinstance(core, TurnEnv):
            core.scoring_s = 0.0


class CallThread(threading.Thread):
    """Runs calls in order until it gets None or is abandoned; then it closes the environment of its place, if any."""

    def __init__(self, name: str, place: Place | None = None) -> None:
        super().__init__(name=f"env {name}", daemon=True)
        self.inbox: SimpleQueue[tuple[Work, Deliver] | None] = SimpleQueue()
        self.abandoned = False
        self.place = place

    def run(self) -> None:
        """Run the calls of the inbox."""
        unblock_signals()
        while (job := self.inbox.get()) is not None and not self.abandoned:
            work, deliver = job
            try:
                with copies_end():
                    result, error = work(), None
            except BaseException as raised:  # noqa: BLE001 - delivered to the caller
                result, error = None, raised
            deliver(result, error)
            del job, work, deliver, result, error
        if self.place is not None and self.place.env is not None:
            # Reached when an abandoned call returns after all, or when making the environment failed half-way.
            try:
                self.place.env.close()
            except BaseException:
                LOG.warning("an environment did not close", exc_info=True, extra={"thread": self.name})

    def abandon(self) -> None:
        """End the thread after its present call, and count it until then."""
        self.abandoned = True
        self.inbox.put(None)
        _abandoned.append(self)
