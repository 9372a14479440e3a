"""An environment that lowers limits of its process, or closes its files. ``BREAKS`` is its id."""

import os
import resource
from collections.abc import Callable
from typing import Any

import gymnasium
from turnwise.envs.base import Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

BREAKS = "turnwise.tests.process.breaks:breaks/Breaks-v0"
LOW = {"RLIMIT_AS": 1 << 20, "RLIMIT_CPU": 1, "RLIMIT_FSIZE": 1000, "RLIMIT_NOFILE": 8, "RLIMIT_NPROC": 1}
"""Values with which a process cannot go on."""


def lower() -> None:
    for name, value in LOW.items():
        number = getattr(resource, name)
        resource.setrlimit(number, (value, resource.getrlimit(number)[1]))


WAYS: dict[str, Callable[[], Any]] = {
    "limits": lower,
    "closes stdout": lambda: os.close(1),
    "closes streams": lambda: os.closerange(0, 3),
    "closes all": lambda: os.closerange(3, 100),
    "closes streams and all": lambda: os.closerange(0, 100),
}


class Breaks(TurnEnv):
    """Breaks its process in every step; an episode has two turns, of long observations."""

    thread_bound = False

    def __init__(self, way: str) -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(words=("on",))
        self._break = WAYS[way]

    def oracle(self) -> str:
        return "go"

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self._turns = 0
        return "on", {"state_key": "on"}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self._turns += 1
        info = {"action_valid": action == "go", "state_key": "on", "success": True}
        self._break()
        return "on " * 1000, 0.5, self._turns == 2, False, info


gymnasium.register("breaks/Breaks-v0", entry_point=f"{__name__}:Breaks")
