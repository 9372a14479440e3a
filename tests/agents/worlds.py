"""Environments for the tests of the episode loop. A process registers them by importing ``module:id``."""

import itertools
import re
import threading
from typing import Any

import gymnasium
import numpy as np
from turnwise.envs.base import Image, Info, Obs, TurnEnv
from turnwise.envs.spaces import FreeText

CLOCK = "turnwise.tests.agents.worlds:loop/Clock-v0"
PICTURE = "turnwise.tests.agents.worlds:loop/Picture-v0"
SPENT = "turnwise.tests.agents.worlds:loop/Spent-v0"
MEETING = "turnwise.tests.agents.worlds:loop/Meeting-v0"
_ticks = itertools.count(1000)


class Clock(TurnEnv):
    """Shows a number that never repeats, and removes it in ``normalize``; ends with success at the third step."""

    def __init__(self) -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = FreeText(100)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self.turn = 0
        return self._look(), {"extras": {"made_of": "brass"}}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        self.turn += 1
        ended = self.turn == 3
        info = {"success": True, "extras": {"struck": [self.turn]}, "targets": [[4, 2]]} if ended else {}
        return self._look(), 0.1, ended, False, info

    def _look(self) -> str:
        return f"turn {self.turn} pid {next(_ticks)}"

    def screenshot(self) -> Image:
        return np.full((2, 2, 3), self.turn, np.uint8)

    def normalize(self, observation: Obs) -> Obs:
        assert isinstance(observation, str)
        return re.sub(r"pid \d+", "pid", observation)


class Spent(TurnEnv):
    """Counts the episodes that this instance has begun: only the first one of an instance is reproducible."""

    made = 0

    def __init__(self) -> None:
        self.action_space = self.observation_space = FreeText()
        self.episodes = 0
        Spent.made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        self.episodes += 1
        return f"episode {self.episodes}", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return "over", 1.0, True, False, {"success": True}


class Picture(TurnEnv):
    """Shows an image and nothing else."""

    def __init__(self) -> None:
        self.action_space = FreeText(words=("go",))
        self.observation_space = gymnasium.spaces.Box(0, 255, (2, 2, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        return np.zeros((2, 2, 3), np.uint8), {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        return np.zeros((2, 2, 3), np.uint8), 1.0, True, False, {"success": True}

    def valid_actions(self) -> list[tuple[str, float]]:
        return [("go", 1.0)]

    def vocabulary(self) -> list[str]:
        return ["go"]


class Meeting(TurnEnv):
    """Ends at the first step. While ``together`` is set, a step waits until as many environments have taken one."""

    together: threading.Barrier | None = None

    def __init__(self) -> None:
        self.action_space = self.observation_space = FreeText()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, Info]:
        super().reset(seed=seed)
        return "wait", {}

    def step(self, action: str) -> tuple[Obs, float, bool, bool, Info]:
        if Meeting.together is not None:
            Meeting.together.wait(20)
        return "met", 1.0, True, False, {"success": True}


gymnasium.register("loop/Clock-v0", entry_point=Clock)  # type: ignore[arg-type]
gymnasium.register("loop/Picture-v0", entry_point=Picture)  # type: ignore[arg-type]
gymnasium.register("loop/Meeting-v0", entry_point=Meeting)  # type: ignore[arg-type]
gymnasium.register("loop/Spent-v0", entry_point=Spent)  # type: ignore[arg-type]
