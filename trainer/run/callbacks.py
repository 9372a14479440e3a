"""Callbacks of a program: they receive updates, evaluations and the end of a run in its driver, and may stop it.

They are called in the event loop of the run, which waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...errors import TurnwiseError
from ..telemetry.events import EvalResult, Event, UpdateDone
from .summary import RunResult


class StopRun(Exception):
    """Raised by a callback: the training ends after this update or evaluation, and its policy is evaluated.

    The same configuration resumes the run. Before the training, the run stops at once; after it, nothing stops.
    """


class StoppedEarly(TurnwiseError):
    """A run was stopped before its first version was served, so it has no result; the same configuration begins it."""


class CallbackFailed(TurnwiseError):
    """A callback raised an exception, and the run ended."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The end of a run."""

    run: str
    status: str
    """``finished``, ``stopped`` or ``failed``."""
    error: str
    """Why the run failed; empty otherwise."""
    result: RunResult | None
    """None for a run that failed, or was stopped before it had a version."""


class Callback:
    """The methods that a run calls; override those that you need.

    A method that raises ``StopRun`` stops the run. Any other exception fails it, with the callback and the exception
    in its error.
    """

    def on_update(self, update: UpdateDone) -> None:
        """Receive a finished update; ``update.metrics`` are its numbers in ``metrics.jsonl``."""

    def on_evaluation(self, evaluation: EvalResult) -> None:
        """Receive a finished evaluation."""

    def on_end(self, end: RunEnded) -> None:
        """Receive the end of the run, which is recorded already."""


class Callbacks:
    """The callbacks of a run."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self._callbacks = callbacks

    def receive(self, event: Event, stop: Callable[[str], None]) -> None:
        """Pass an update or an evaluation to the callbacks.

        Args:
            stop: requests the run to stop, with a reason.

        Raises:
            CallbackFailed: a callback raised an exception other than ``StopRun``.
        """
        for callback in self._callbacks:
            try:
                if isinstance(event, UpdateDone):
                    callback.on_update(event)
                elif isinstance(event, EvalResult):
                    callback.on_evaluation(event)
            except StopRun as request:
                stop(f"callback `{type(callback).__name__}`: {request}")
            except Exception as error:
                at = f"update {event.update}" if isinstance(event, UpdateDone) else "an evaluation"
                raise CallbackFailed(_failed(callback, f"at {at}", error)) from error

    def end(self, end: RunEnded) -> None:
        """Pass the end of the run to the callbacks.

        Raises:
            CallbackFailed: a callback raised an exception; the status of the run stays as it is.
        """
        for callback in self._callbacks:
            try:
                callback.on_end(end)
            except Exception as error:
                raise CallbackFailed(_failed(callback, f"after the run {end.status}", error)) from error


def _failed(callback: Callback, when: str, error: Exception) -> str:
    name = type(callback).__name__
    return f"callback `{name}` failed {when}: {type(error).__name__}: {error}; correct it and run the same again"
