"""The mutable state of a run: the version it trains, the time it trained, and the request to stop."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from time import time
from typing import Any, TypeVar

from ...records import PolicyVersion
from ..context import RunContext
from ..telemetry.events import EvalResult, Note

T = TypeVar("T")

STOP_REASON = "stop requested"


class StopRequest:
    """The request to stop a run, with its reason. It is set once, in the run's event loop."""

    def __init__(self) -> None:
        self.reason = ""
        """Name of a signal, or the request in the store; empty without a request."""
        self._requested = asyncio.Event()

    def __bool__(self) -> bool:
        return self._requested.is_set()

    def request(self, reason: str) -> None:
        """Request the run to stop."""
        self.reason = reason
        self._requested.set()

    async def cancel_on_request(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of ``work``. If a stop is requested first, cancel ``work`` and return None."""
        task = asyncio.ensure_future(work)
        requested = asyncio.ensure_future(self._requested.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            requested.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()


@dataclass(slots=True)
class RunState:
    """The position of a run in its training."""

    stop: StopRequest = field(default_factory=StopRequest)
    ends_early: str = ""
    """Why a callback ended the training before its limit; the last evaluation takes place."""
    trained_s: float = 0.0
    """Seconds of training, without start-up, evaluation and checkpoints."""
    current: PolicyVersion | None = None
    """The version that the learner holds and the engines serve; None until the run is prepared."""

    @property
    def version(self) -> PolicyVersion:
        """Return ``current`` of a run that is prepared."""
        assert self.current is not None  # noqa: S101
        return self.current

    async def must_stop(self, context: RunContext) -> bool:
        """Return whether a callback, a signal or `turnwise runs stop` requested the training to stop."""
        if not self.stop:
            requested = await context.store.is_stop_requested()
            # A signal may have come during the read.
            if requested and not self.stop:
                context.report(Note(f"{STOP_REASON}: stopping after this update; the same command resumes the run"))
                self.stop.request(STOP_REASON)
        return bool(self.stop or self.ends_early)

    def checkpoint_json(self, context: RunContext, evaluations: Mapping[str, EvalResult]) -> dict[str, Any]:
        """Return the state that a checkpoint stores, as JSON values; ``InitialState.state`` is read from it."""
        algorithms = context.algorithms
        return {
            "run": context.name,
            "config": context.config.resolved(),
            "update": self.version.update,
            "version": self.version.id,
            "trained_s": self.trained_s,
            "evaluations": {name: one.json() for name, one in evaluations.items()},
            "components": algorithms.component_states(),
            "observed": algorithms.observed,
            "drawn": algorithms.drawn,
            "streams": context.streams.state_dict(),
            "saved_at": time(),
        }
