"""One call of an environment that is made for it: in a thread, so that no code of an environment runs in the main
thread, where it could replace signal handlers, and ``SystemExit`` or ``KeyboardInterrupt`` would end the command.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np

from ...errors import TurnwiseError
from ..base import TurnEnv
from ..errors import EnvironmentBroken, EnvTimeout, wrap_error
from ..registry import make
from .call_thread import CallThread, Place

LOG = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT_S = 300.0
"""Seconds for making the environment and the call."""
CLOSE_TIMEOUT_S = 30.0
"""Seconds for closing the environment."""
MAX_SEED = 2**63 - 1
"""The largest seed that the store holds."""


def call_once(env_id: str, options: Mapping[str, Any], name: str, work: Callable[[TurnEnv], T]) -> T:
    """Make an environment, return ``work(environment)``, and close it; ``name`` names the call in errors.

    An environment that does not close changes nothing of the result: a line in the log names it.

    Raises:
        UnknownEnvironment: the id is not registered.
        EnvironmentFailed: the environment could not be made, or raised.
        EnvTimeout: it took longer than ``TIMEOUT_S``; its thread is abandoned.
        TurnwiseError: ``work`` raised it.
    """
    place = Place()
    thread = CallThread(env_id, place)  # which closes the environment
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> T:
        env = place.env = make(env_id, **options)
        return work(env)

    thread.start()
    thread.inbox.put((run, lambda result, error: answers.put((result, error))))
    try:
        result, error = answers.get(timeout=TIMEOUT_S)
    except Empty:
        thread.abandon()
        raise EnvTimeout(f"{env_id} {name} did not return within {TIMEOUT_S:g} s; its thread is abandoned") from None
    except BaseException:
        thread.abandon()
        raise
    thread.inbox.put(None)
    thread.join(CLOSE_TIMEOUT_S)
    if thread.is_alive():
        LOG.warning("%s did not close within %g s; its thread is abandoned", env_id, CLOSE_TIMEOUT_S)
        thread.abandon()
    if isinstance(error, TurnwiseError):
        raise error
    if error is not None:
        raise wrap_error(f"{env_id} {name}", error)
    value: T = result
    return value


def enumerated_seeds(env_id: str, options: Mapping[str, Any], split: str = "train") -> Sequence[int] | None:
    """Return the seeds of all tasks of an environment; None if every seed is a task.

    Raises:
        UnknownEnvironment: no such id.
        EnvironmentFailed: the environment could not be made.
        EnvironmentBroken: its ``tasks`` returned no seed, or values that are not seeds.
    """
    return call_once(env_id, options, "tasks", lambda env: checked_seeds(env_id, split, env.tasks(split)))


def checked_seeds(env_id: str, split: str, seeds: Iterable[Any] | None) -> tuple[int, ...] | None:
    """Return the seeds that ``tasks`` returned. Raises EnvironmentBroken: they are none, or not seeds."""
    if seeds is None:
        return None
    found = tuple(seeds) if isinstance(seeds, Iterable) else ()
    odd = next((one for one in found if isinstance(one, bool) or not isinstance(one, int | np.integer)), None)
    if odd is None:
        odd = next((one for one in found if not 0 <= one <= MAX_SEED), None)
    if odd is not None or not found:
        returned = "no seed" if odd is None else f"the seed {odd!r}"
        none = "; to evaluate on no task, set `evaluation.tasks = 0`" if split == "test" and odd is None else ""
        raise EnvironmentBroken(
            f"{env_id}: `tasks({split!r})` returned {returned}; it must return at least one seed, each an int from 0 "
            f"to 2**63 - 1, or None{none}"
        )
    return tuple(int(one) for one in found)
