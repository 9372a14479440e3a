"""One call of an environment that is made for it: in a thread, so that no code of an environment runs in the main
thread, where it could replace signal handlers, and ``SystemExit`` or ``KeyboardInterrupt`` would end the command.
"""

from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from ...errors import TurnwiseError
from ..base import TurnEnv
from ..errors import EnvironmentBroken, EnvTimeout, wrap_error
from ..registry import make
from .call_thread import CallThread

T = TypeVar("T")

TIMEOUT_S = 300.0
"""Seconds for making the environment, the call, and closing it."""


def call_once(env_id: str, options: Mapping[str, Any], name: str, work: Callable[[TurnEnv], T]) -> T:
    """Make an environment, return ``work(environment)``, and close it; ``name`` names the call in errors.

    Raises:
        UnknownEnvironment: the id is not registered.
        EnvironmentFailed: the environment could not be made, or raised.
        EnvTimeout: it took longer than ``TIMEOUT_S``; its thread is abandoned.
        TurnwiseError: ``work`` raised it.
    """
    thread = CallThread(env_id)
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def run() -> T:
        env = make(env_id, **options)
        try:
            return work(env)
        finally:
            env.close()

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
    seeds = call_once(env_id, options, "tasks", lambda env: env.tasks(split))
    if seeds is None:
        return None
    if not seeds or any(isinstance(seed, bool) or not isinstance(seed, int) or seed < 0 for seed in seeds):
        raise EnvironmentBroken(f"{env_id}: `tasks({split!r})` must return at least one seed, each an int of 0 or more")
    return tuple(seeds)
