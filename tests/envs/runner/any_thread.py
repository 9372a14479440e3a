"""An environment that any thread may run. ``ANY_THREAD`` is its id in any process."""

import threading
import time
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

ANY_THREAD = "turnwise.tests.envs.runner.any_thread:shared/AnyThread-v0"
RELEASE = threading.Event()
"""The event on which a hanging call waits; only the end of a test sets it."""


class AnyThreadEnv(TurnEnv):
    """The action is ``thread``, ``raise``, ``hang``, or a number of seconds to sleep. ``label`` separates the
    measurements of the tests."""

    thread_bound = False

    def __init__(self, label: str = "") -> None:
        self.action_space = FreeText(words=("thread",))
        self.observation_space = FreeText(100)
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        return "on", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        match action:
            case "raise":
                raise SystemExit(3)
            case "hang":
                RELEASE.wait()
            case "thread":
                return str(threading.get_ident()), 0.0, False, False, {}
            case _:
                time.sleep(float(action))
        return "on", 0.0, False, False, {}

    def close(self) -> None:
        self.closed = True


gymnasium.register("shared/AnyThread-v0", entry_point=AnyThreadEnv)  # type: ignore[arg-type]
